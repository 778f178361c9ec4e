// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// syntaxMessage fails unless err is a *SyntaxError and returns its text.
func syntaxMessage(t *testing.T, in string, err error) string {
	t.Helper()
	var e *SyntaxError
	if !errors.As(err, &e) {
		t.Errorf("%.80q: error %v is no *SyntaxError", in, err)
		return ""
	}
	if e.Offset < 0 || e.Offset > len(in) {
		t.Errorf("%.80q: offset %d", in, e.Offset)
	}
	return e.Message
}

func TestSyntaxErrorText(t *testing.T) {
	t.Parallel()
	if got := (&SyntaxError{Offset: 3}).Error(); got != "invalid JSON at byte 3" {
		t.Error(got)
	}
	if got := NewScanner(nil).Fail("x").Error(); got != "x at byte 0" {
		t.Error(got)
	}
}

// documents are JSON texts of every kind; malformed are none.
var (
	documents = []string{
		`{}`, `[]`, `""`, `0`, `-0`, `10`, `1.5`, `1e5`, `1E+5`, `-0.0e-0`, `true`, `false`, `null`, " \t\r\n1 \n",
		`{"a":1,"b":[true,null,{"c":[]}]}`, ` { "a" : [ 1 , 2 ] , "b" : { } } `, `[[],[[]],{}]`, `{"a":1,"a":2}`, `{"":""}`,
		`"\"\\\/\b\f\n\r\t\u0041\u00e9\u00E9\ud83d\uDE00"`, `"é😀` + "\u2028\x7f" + `"`, `[1,"a",false]`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500),
	}
	malformed = []string{
		``, ` `, `{`, `[`, `"`, `"a`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `[1`, `[1,`, `[1,]`, `{"a":1,}`, `[,1]`, `{,"a":1}`,
		`[1,,2]`, `{"a":1,,"b":2}`, `[1 2]`, `{"a":1 "b":2}`, `{"a" 1}`, `{"a",1}`, `{a:1}`, `{1:1}`, `{'a':1}`, `['a']`, `{"a"}`, `{"a":}`, `{:1}`,
		`[}`, `{]`, `[{]`, `{"a":[}`, `[1}`, `{"a":1]`, `}`, `]`, `,`, `:`,
		`tru`, `t`, `fals`, `nul`, `True`, `nan`, `undefined`, `[trux]`, `[true1]`,
		`01`, `[01]`, `-`, `-a`, `+1`, `.5`, `1.`, `1.e5`, `1e`, `1e+`, `[1ex]`, `0x5`, `1_0`, `--1`, `Infinity`,
		"\"\x00\"", "\"\n\"", "\"a\x1fb\"", "\"\\n\x1f\"", `"\`, `"\"`, `"\x"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\U0041"`, `"\'"`, `"a\n`, `"\u0041`,
		`"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83d\ud83d"`, `"\ude00\ud83d"`, `"\ud83dx\ude00"`, `"\ud83d\ude0"`, `"\ud83d\n"`,
		"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\\n\xff\"", "{\"\xff\":1}", "\xef\xbb\xbf{}",
		`//`, `[1/**/]`, `{}{}`, `1 1`, `[] x`, `{"a":1}}`, "1\x00", "\f1", "\u00a01", `{"a\`,
	}
)

func TestSkip(t *testing.T) {
	t.Parallel()
	skip := func(in string) error {
		s := NewScanner([]byte(in))
		if err := s.Skip(); err != nil {
			return err
		}
		return s.End()
	}
	for _, in := range documents {
		if err := skip(in); err != nil {
			t.Errorf("%.80q: %v", in, err)
		}
		if !json.Valid([]byte(in)) {
			t.Errorf("%.80q is in the wrong list", in)
		}
	}
	for _, in := range malformed {
		if msg := syntaxMessage(t, in, skip(in)); msg != "" {
			t.Errorf("%.80q: message %q", in, msg)
		}
	}
	s := NewScanner([]byte(` {"a":[1]} "next"`))
	if err := s.Skip(); err != nil || s.Offset() != 10 {
		t.Errorf("skipped to byte %d: %v", s.Offset(), err)
	}
}

func TestPeekAndOpen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Token{
		"": TokenEnd, " \n": TokenEnd, " {": TokenObject, "[": TokenArray, `"`: TokenString, "-": TokenNumber, "0": TokenNumber, "9": TokenNumber,
		"t": TokenTrue, "f": TokenFalse, "n": TokenNull,
	} {
		if got, err := NewScanner([]byte(in)).Peek(); got != want || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"x", "}", "]", ",", ":", "+", ".", "\x00", "\xff"} {
		_, err := NewScanner([]byte(in)).Peek()
		syntaxMessage(t, in, err)
	}
	for _, in := range []string{"", "[", "x"} {
		syntaxMessage(t, in, NewScanner([]byte(in)).Open(TokenObject))
	}
	if err := NewScanner([]byte(" {")).Open(TokenObject); err != nil {
		t.Error(err)
	}
}

// TestBytesOfEveryByte wherever it stands: texts are read eight bytes at a time.
func TestBytesOfEveryByte(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for at := range 20 {
			text := []byte(`"abcdefghijklmnopqrst"`)
			text[1+at] = byte(c)
			var want string
			valid := utf8.Valid(text) && json.Unmarshal(text, &want) == nil
			s := NewScanner(text)
			got, err := s.Bytes()
			if err == nil {
				err = s.End()
			}
			if (err == nil) != valid || valid && string(got) != want {
				t.Errorf("%q: %q, %v", text, got, err)
			}
		}
	}
}

func TestBytesAliasesInput(t *testing.T) {
	t.Parallel()
	in := []byte(`"plain" "esc\n"`)
	s := NewScanner(in)
	plain, err := s.Bytes()
	if err != nil || string(plain) != "plain" || &plain[0] != &in[1] {
		t.Errorf("%q, %v: a plain string is copied", plain, err)
	}
	s.space()
	escaped, err := s.Bytes()
	if err != nil || string(escaped) != "esc\n" {
		t.Errorf("%q, %v", escaped, err)
	}
	if want := []byte(`"plain" "esc\n"`); !bytes.Equal(in, want) {
		t.Errorf("the input was changed: %s", in)
	}
}

// walk reads a value as callers with a schema do: with a loop per bracket.
func walk(s *Scanner, out *strings.Builder) error {
	t, err := s.Peek()
	if err != nil {
		return err
	}
	switch t {
	case TokenObject:
		if err := s.Open(t); err != nil {
			return err
		}
		out.WriteByte('{')
		for first := true; ; first = false {
			key, ok, err := s.NextKey(first)
			if err != nil || !ok {
				out.WriteByte('}')
				return err
			}
			fmt.Fprintf(out, "%s:", key)
			if err := walk(s, out); err != nil {
				return err
			}
		}
	case TokenArray:
		if err := s.Open(t); err != nil {
			return err
		}
		out.WriteByte('[')
		for first := true; ; first = false {
			ok, err := s.NextElement(first)
			if err != nil || !ok {
				out.WriteByte(']')
				return err
			}
			if err := walk(s, out); err != nil {
				return err
			}
		}
	}
	from := s.Offset()
	if err := s.Skip(); err != nil {
		return err
	}
	out.Write(bytes.TrimSpace(s.data[from:s.Offset()]))
	out.WriteByte(';')
	return nil
}

func TestWalk(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := NewScanner([]byte(` { "a" : [ 1 , "x" , [] ] , "b\n" : { } , "c" : null } `))
	if err := walk(s, &out); err != nil || s.End() != nil {
		t.Fatal(err, s.End())
	}
	if want := "{a:[1;\"x\";[]]b\n:{}c:null;}"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	for _, in := range malformed {
		s := NewScanner([]byte(in))
		err := walk(s, &strings.Builder{})
		if err == nil {
			err = s.End()
		}
		if msg := syntaxMessage(t, in, err); msg != "" {
			t.Errorf("%.80q: message %q", in, msg)
		}
	}
}
