// Package rational says which number a rate that is a float64 stands for. The limiter in
// memory and the one in Redis have to agree on it.
package rational

import "math/big"

// Nearest returns the rational that a positive float64 stands for: the first
// convergent of its continued fraction that rounds to it. For x = p/q computed in
// float64 that is p/q again as long as p*q < 2^51 (Legendre: whatever lies within
// 1/(2q^2) of p/q has it as a convergent), so that 1.0/60 is a sixtieth and
// not 7686143364045647 / 2^59.
func Nearest(x float64) *big.Rat {
	rest := new(big.Rat).SetFloat64(x)
	p, q := big.NewInt(1), big.NewInt(0) // the convergent, and the one before it
	p0, q0 := big.NewInt(0), big.NewInt(1)
	for {
		a := new(big.Int).Div(rest.Num(), rest.Denom())
		p, p0 = new(big.Int).Add(new(big.Int).Mul(a, p), p0), p
		q, q0 = new(big.Int).Add(new(big.Int).Mul(a, q), q0), q
		r := new(big.Rat).SetFrac(p, q)
		if nearest, _ := r.Float64(); nearest == x {
			return r
		}
		rest.Sub(rest, new(big.Rat).SetInt(a))
		rest.Inv(rest)
	}
}
