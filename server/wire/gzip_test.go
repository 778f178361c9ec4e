// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	pack(t, gzip.NewWriter(&b), text)
	return b.Bytes()
}

func pack(t *testing.T, w io.WriteCloser, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCompressedRequests(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	var deflated, bare bytes.Buffer
	pack(t, zlib.NewWriter(&deflated), `{"Text":"zlib"}`)
	raw, err := flate.NewWriter(&bare, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	pack(t, raw, `{"Text":"bare"}`)
	good := zipped(t, `{"Text":"gzip"}`)
	broken := bytes.Clone(good)
	broken[len(broken)-6]++ // of the checksum
	// Large bodies are made of members, which take little time to compress.
	mib := zipped(t, strings.Repeat("x", 1<<20))
	fits := slices.Concat(zipped(t, `{"Unknown":"`), bytes.Repeat(mib, 15), zipped(t, strings.Repeat("x", 1<<20-14)+`"}`))
	const tooLarge = `{"__type":"com.amazonaws.dynamodb.v20120810#RequestEntityTooLarge","message":"Request size has exceeded the maximum allowed size"}`
	cases := []struct {
		name, encoding string
		body           []byte
		status         int
		want           string
	}{
		{"gzip", "gzip", good, 200, `{"Text":"gzip"}`},
		{"upper case", " GZIP ", good, 200, `{"Text":"gzip"}`},
		{"deflate", "deflate", deflated.Bytes(), 200, `{"Text":"zlib"}`},
		{"bare deflate", "deflate", bare.Bytes(), 200, `{"Text":"bare"}`},
		{"identity", "identity", []byte(`{"Text":"as is"}`), 200, `{"Text":"as is"}`},
		{"large", "gzip", zipped(t, `{"Text":"`+strings.Repeat("x", 100_000)+`"}`), 200, `{"Text":"` + strings.Repeat("x", 100_000) + `"}`},
		{"just fits", "gzip", fits, 200, `{"Text":"x"}`},
		{"bomb", "gzip", bytes.Repeat(mib, 2000), 413, tooLarge},
		{"not compressed", "gzip", []byte(`{"Text":"x"}`), 400, notJSON},
		{"cut short", "gzip", good[:len(good)-9], 400, notJSON},
		{"wrong checksum", "gzip", broken, 400, notJSON},
		{"empty deflate", "deflate", []byte("x"), 400, notJSON},
		{"broken zlib", "deflate", []byte("\x78\x9cnonsense"), 400, notJSON},
		{"unknown encoding", "br", good, 400, notJSON},
		{"two encodings", "gzip, gzip", good, 400, notJSON},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e.call("Probe", string(c.body), "Content-Encoding", c.encoding).check(t, c.status, c.want)
		})
	}
	e.settled(len(cases))
}

func TestCompressedResponses(t *testing.T) {
	t.Parallel()
	e := start(t, probes(), Options{})
	big := fmt.Sprintf(`{"Size":%d}`, 50_000)
	for _, c := range []struct {
		accept, request string
		compressed      bool
	}{
		{"gzip", big, true},
		{"deflate, GZIP;q=0.5", big, true},
		{"gzip", `{}`, false},
		{"identity", big, false},
		{"", big, false},
		{"gzip;q=0", big, false},
		{"gzip;q=nonsense", big, false},
		{"br", big, false},
	} {
		t.Run(c.accept, func(t *testing.T) {
			a := e.call("Probe", c.request, "Accept-Encoding", c.accept)
			a.check(t, 200, a.body) // the checksum is of what was sent
			if got := a.header.Get("Content-Encoding") == "gzip"; got != c.compressed {
				t.Fatalf("compressed: %v", got)
			}
			if !c.compressed {
				return
			}
			z, err := gzip.NewReader(strings.NewReader(a.body))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(z)
			if err != nil || string(text) != `{"Text":"`+strings.Repeat("x", 50_000)+`"}` {
				t.Errorf("%d bytes, %v", len(text), err)
			}
		})
	}
	for range maxZips { // all compressors at work
		e.zips <- struct{}{}
	}
	a := e.call("Probe", big, "Accept-Encoding", "gzip")
	a.check(t, 200, `{"Text":"`+strings.Repeat("x", 50_000)+`"}`)
	e.settled(9)
}
