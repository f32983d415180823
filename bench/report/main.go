package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	results := flag.String("results", "../results", "the `folder` with the raw results")
	docs := flag.String("docs", "../../docs", "the `folder` to write benchmarks.md and benchmarks/*.svg to")
	flag.Parse()
	if err := run(*results, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// run writes every file of the report into the folder docs.
func run(results, docs string) error {
	files, err := report(results, docs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(docs, "benchmarks"), 0o777); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(docs, name), content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// report makes the report of a folder of results: the page, in each theme the charts, and
// the README with its table, by their names in the folder docs.
func report(folder, docs string) (map[string][]byte, error) {
	r, err := readResults(folder)
	if err != nil {
		return nil, err
	}
	text, err := page(r)
	if err != nil {
		return nil, err
	}
	old, err := os.ReadFile(filepath.Join(docs, "../README.md"))
	if err != nil {
		return nil, err
	}
	table, err := readme(string(old), r)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"benchmarks.md": text, "../README.md": []byte(table)}
	for _, s := range sections {
		for _, t := range themes {
			svg, err := s.draw(r, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.File, err)
			}
			files[s.chart(t)] = svg
		}
	}
	return files, nil
}
