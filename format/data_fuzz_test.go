// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"errors"
	"testing"

	"github.com/extenddb/extenddb/format/ddb"
)

// FuzzParseLine: what is accepted is an item of legal size, and its own line
// reads back as the same item.
func FuzzParseLine(f *testing.F) {
	for _, line := range []string{
		``, `{}`, `{"Item":{}}`, `{"Item":{"a":{"N":"1E-130"},"b":{"L":[{"M":{"c":{"NS":["1","2e1"]}}}]}}}`,
		`{"Item":{"b":{"B":"3q2+7w=="},"s":{"SS":["a","é"]},"n":{"NULL":true},"t":{"BOOL":false}},"x":[1]}`,
		`{"Keys":{},"NewImage":{}}`, `{"Item":{"a":{"S":"x","S":"y"}}}`, `{"Item":{"a":{"S":"\ud83d\ude00"},"a":{"S":""}}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		item, err := ParseLine(line)
		if err != nil {
			if item != nil || err.Error() == "" {
				t.Fatalf("%v with %v", item, err)
			}
			return
		}
		if item.Size() > MaxItemSize {
			t.Fatalf("an item of %d bytes", item.Size())
		}
		again := append(ddb.AppendBackupItem([]byte(lineStart), item), '}')
		if len(line) < MaxPortableLine && len(again) > MaxPortableLine {
			t.Fatalf("a line of %d bytes", len(again))
		}
		if back, err := ParseLine(again); err != nil || !back.Equal(item) {
			t.Fatalf("%s reads back as %v, %v", again, back, err)
		}
	})
}

// FuzzFileReader: whatever the file, lines keep to the limits, every error names
// the file, and no more than one byte too many is read. The text is read both
// as it is and gzipped.
func FuzzFileReader(f *testing.F) {
	data, want := goldenB(f)
	f.Add(data, uint16(want.Items), uint16(0), uint16(300))
	f.Add(append(bytes.Clone(data), data...), uint16(4), uint16(1), uint16(240))
	f.Add([]byte("{\"Item\":{}}\r\n\n"), uint16(1), uint16(7), uint16(12))
	f.Fuzz(func(t *testing.T, data []byte, items, less, limit uint16) {
		for _, file := range [][]byte{data, member(t, string(data))} {
			want := expect(file, int64(items))
			want.Bytes -= min(int64(less), want.Bytes)
			l := ReadLimits{MaxLine: int64(limit), MaxPlain: 1 << 20}
			most := l.MaxLine
			if most == 0 {
				most = DefaultMaxLine
			}
			r := &counted{r: bytes.NewReader(file)}
			fr := NewFileReader(r, want, l)
			n, plain, failed := int64(0), int64(0), false
			for line, err := range fr.Lines() {
				if failed {
					t.Fatal("goes on after an error")
				}
				if err != nil {
					var fe *FileError
					if failed = true; !errors.As(err, &fe) || fe.Key != want.Key {
						t.Fatal(err)
					}
					continue
				}
				n++
				plain += int64(len(line))
				if int64(len(line)) > most || len(line) == 0 || bytes.IndexByte(line, '\n') >= 0 || n > want.Items {
					t.Fatalf("line %d: %q", n, line)
				}
			}
			if r.n > want.Bytes+1 || plain > fr.Plain() {
				t.Fatalf("read %d of %d bytes, %d of %d plain ones", r.n, want.Bytes, plain, fr.Plain())
			}
			if !failed && (n != want.Items || want.Bytes != int64(len(file)) || fr.Plain() > l.MaxPlain) {
				t.Fatalf("no error after %d lines", n)
			}
		}
	})
}
