package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A theme is how a chart looks on a light or a dark page. The background is the page's.
type theme struct {
	Name       string
	text, grid color.Color
	band       color.Color // behind this module's rows
	series     []color.Color
}

var themes = []theme{
	{
		"light", rgb(0x1f2328), rgb(0xd1d9e0), rgb(0xddf4ff),
		[]color.Color{rgb(0x0969da), rgb(0xbc4c00), rgb(0x1a7f37), rgb(0x8250df)},
	},
	{
		"dark", rgb(0xe6edf3), rgb(0x3d444d), rgb(0x13233a),
		[]color.Color{rgb(0x58a6ff), rgb(0xf0883e), rgb(0x3fb950), rgb(0xd2a8ff)},
	},
}

// shapes tell the series apart for those who cannot by color.
var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}}

func rgb(hex uint32) color.Color {
	return color.RGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// chart is the path of the section's chart in the folder docs.
func (s section) chart(t theme) string { return "benchmarks/" + s.File + "-" + t.Name + ".svg" }

// draw draws a section as an SVG: a row for each implementation, in it a mark at the
// median of each series and a line from the least to the most, on a logarithmic axis.
func (s section) draw(r *results, t theme) ([]byte, error) {
	rows := s.rows(r)
	p, legend := plot.New(), plot.NewLegend()
	p.BackgroundColor = nil // the page shows through
	s.layOut(p, &legend, t, rows)

	if err := addBands(p, t, rows); err != nil {
		return nil, err
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = t.grid, nil
	p.Add(grid)
	for i, of := range s.Series {
		marks, lines, err := s.marks(t, rows, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.Name, err)
		}
		p.Add(lines, marks)
		legend.Add(of.Name, marks)
	}
	low, high := span(rows)
	p.X.Min, p.X.Max = low, high
	p.Y.Min, p.Y.Max = -0.6, float64(len(rows))-0.4

	svg := vgsvg.New(vg.Points(760), vg.Length(len(rows))*vg.Points(22)+vg.Points(70))
	canvas := draw.New(svg)
	const legendWidth = 150
	p.Draw(draw.Crop(canvas, 0, -vg.Points(legendWidth), 0, 0))
	legend.Draw(draw.Crop(canvas, vg.Points(760-legendWidth+10), 0, 0, -vg.Points(30)))
	var b bytes.Buffer
	_, err := svg.WriteTo(&b)
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif")), err
}

// layOut sets fonts, colors, axes and legend.
func (s section) layOut(p *plot.Plot, legend *plot.Legend, t theme, rows []row) {
	sans := func(size vg.Length) font.Font {
		return font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size)
	}
	p.Title.Text = s.Title
	p.Title.TextStyle.Font, p.Title.TextStyle.Color = sans(14), t.text
	p.Title.Padding = vg.Points(6)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Label.TextStyle.Color = t.text, t.text
		axis.Tick.Color, axis.Tick.Label.Color = t.text, t.text
		axis.Label.TextStyle.Font, axis.Tick.Label.Font = sans(11), sans(11)
	}
	p.X.Label.Text = s.Axis
	p.X.Scale = plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(ticks)
	labels := make([]plot.Tick, len(rows))
	for i, of := range rows {
		labels[i] = plot.Tick{Value: height(rows, i), Label: of.Impl}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(labels)
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	legend.TextStyle.Font, legend.TextStyle.Color = sans(11), t.text
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth, legend.Padding = vg.Points(14), vg.Points(4)
}

// height is where a row lies on the Y axis: the first is at the top.
func height(rows []row, i int) float64 { return float64(len(rows) - 1 - i) }

// span is the range of the X axis.
func span(rows []row) (low, high float64) {
	low, high = math.Inf(1), 0
	for _, of := range rows {
		for _, f := range of.Figures {
			if f != nil {
				low, high = min(low, f.least()), max(high, f.most())
			}
		}
	}
	return low / 1.2, high * 1.2
}

// ticks has marks at 1, 2 and 5 times the powers of ten, or if those are too many, at
// the powers of ten.
func ticks(low, high float64) (marks []plot.Tick) {
	steps := []float64{1, 2, 5}
	if high/low > 1e3 {
		steps = steps[:1]
	}
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, step := range steps {
			if at := step * math.Pow(10, power); at >= low && at <= high {
				marks = append(marks, plot.Tick{Value: at, Label: number(at)})
			}
		}
	}
	return marks
}

// addBands shades the rows of this module.
func addBands(p *plot.Plot, t theme, rows []row) error {
	low, high := span(rows)
	for i, of := range rows {
		if rank(of.Impl) >= len(ours) {
			continue
		}
		y := height(rows, i)
		band, err := plotter.NewPolygon(plotter.XYs{{X: low, Y: y - 0.5}, {X: high, Y: y - 0.5}, {X: high, Y: y + 0.5}, {X: low, Y: y + 0.5}})
		if err != nil {
			return err
		}
		band.Color = t.band
		band.LineStyle.Width = 0
		p.Add(band)
	}
	return nil
}

// spread is the medians of a series with what lies around them.
type spread struct {
	plotter.XYs
	plotter.XErrors
}

// marks returns the marks of the series i, and the lines through them.
func (s section) marks(t theme, rows []row, i int) (*plotter.Scatter, *plotter.XErrorBars, error) {
	var points spread
	for j, of := range rows {
		if f := of.Figures[i]; f != nil {
			below := (float64(i) - float64(len(s.Series)-1)/2) * 0.17 // so that no mark hides another
			points.XYs = append(points.XYs, plotter.XY{X: f.median(), Y: height(rows, j) - below})
			points.XErrors = append(points.XErrors, struct{ Low, High float64 }{f.median() - f.least(), f.most() - f.median()})
		}
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return nil, nil, err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: t.series[i], Radius: vg.Points(3), Shape: shapes[i]}
	lines, err := plotter.NewXErrorBars(points)
	if err != nil {
		return nil, nil, err
	}
	lines.LineStyle.Color = t.series[i]
	lines.CapWidth = 0
	return marks, lines, nil
}
