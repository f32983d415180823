package main

// This file makes the key of a request out of the fields of an access log.

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A keyField appends one field of a line to a key.
type keyField struct {
	name     string
	combined bool // whether only the combined format has it
	append   func(key []byte, e *clfEntry) []byte
}

// absent is how a log writes a field that is not there, and how the key does where
// a request line cannot be read.
const absent = "-"

// keySeparator stands between the fields of a key. Servers never write it into a
// log as it is, so that different fields make different keys.
const keySeparator = '\t'

var keyFields = []keyField{
	{name: "addr", append: func(key []byte, e *clfEntry) []byte { return append(key, e.addr...) }},
	{name: "net", append: appendNet},
	{name: "ident", append: func(key []byte, e *clfEntry) []byte { return append(key, e.ident...) }},
	{name: "user", append: func(key []byte, e *clfEntry) []byte { return append(key, e.user...) }},
	{name: "request", append: func(key []byte, e *clfEntry) []byte { return append(key, e.request...) }},
	{name: "method", append: appendMethod},
	{name: "path", append: appendPath},
	{name: "target", append: appendTarget},
	{name: "status", append: func(key []byte, e *clfEntry) []byte { return append(key, e.status...) }},
	{name: "referer", combined: true, append: func(key []byte, e *clfEntry) []byte { return append(key, e.referer...) }},
	{name: "agent", combined: true, append: func(key []byte, e *clfEntry) []byte { return append(key, e.agent...) }},
	{name: "all", append: func(key []byte, _ *clfEntry) []byte { return append(key, "all"...) }},
}

// keyFieldNames lists the fields for the usage. TestKeyFieldNames compares it.
const keyFieldNames = "addr net ident user request method path target status referer agent all"

// appendNet appends the network that one customer usually has: the /24 of an IPv4
// address, the /64 of an IPv6 address. A host name is appended as it is.
func appendNet(key []byte, e *clfEntry) []byte {
	addr, err := netip.ParseAddr(string(e.addr))
	if err != nil {
		return append(key, e.addr...)
	}
	addr = addr.Unmap()
	bits := 64
	if addr.Is4() {
		bits = 24
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return append(key, e.addr...)
	}
	return network.AppendTo(key)
}

func appendMethod(key []byte, e *clfEntry) []byte {
	method, _, ok := e.requestLine()
	if !ok {
		return append(key, absent...)
	}
	return append(key, method...)
}

func appendTarget(key []byte, e *clfEntry) []byte {
	_, target, ok := e.requestLine()
	if !ok {
		return append(key, absent...)
	}
	return append(key, target...)
}

func appendPath(key []byte, e *clfEntry) []byte {
	_, target, ok := e.requestLine()
	if !ok {
		return append(key, absent...)
	}
	path, _, _ := bytes.Cut(target, []byte("?"))
	return append(key, path...)
}

// A keySpec is the fields that make a key, in order.
type keySpec []keyField

var defaultKey = keySpec{keyFields[0]}

// parseKeySpec reads the names of fields, separated by commas.
func parseKeySpec(s string) (keySpec, error) {
	var spec keySpec
	for name := range strings.SplitSeq(s, ",") {
		i := slices.IndexFunc(keyFields, func(f keyField) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("must be one or more, separated by commas, of %s", keyFieldNames)
		}
		spec = append(spec, keyFields[i])
	}
	return spec, nil
}

func (s keySpec) String() string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.name
	}
	return strings.Join(names, ",")
}

// append appends the key of a line to dst.
func (s keySpec) append(dst []byte, e *clfEntry) ([]byte, error) {
	for i, f := range s {
		if f.combined && !e.combined {
			return dst, errors.New(f.name + ": the line has none; it must be in the combined format")
		}
		if i > 0 {
			dst = append(dst, keySeparator)
		}
		dst = f.append(dst, e)
	}
	return dst, nil
}
