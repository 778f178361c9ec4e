// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// SyntaxError says that a body is not JSON, or that a member has a JSON type
// the model does not allow: the wire's SerializationException.
type SyntaxError struct {
	// Message is the service's text; empty when the body
	// is not JSON at all, for which the service answers only the type.
	Message string
	Offset  int // byte offset in the input
}

func (e *SyntaxError) Error() string {
	msg := e.Message
	if msg == "" {
		msg = "invalid JSON"
	}
	return msg + " at byte " + strconv.Itoa(e.Offset)
}

// Token is the kind of the next JSON value, named by its first byte.
type Token byte

// The JSON values. TokenNumber stands for any number.
const (
	TokenEnd    Token = 0
	TokenObject Token = '{'
	TokenArray  Token = '['
	TokenString Token = '"'
	TokenNumber Token = '0'
	TokenTrue   Token = 't'
	TokenFalse  Token = 'f'
	TokenNull   Token = 'n'
)

// Scanner reads strict JSON from a byte slice in one pass. It never recurses
// and never allocates more than a multiple of what it has read. Errors are
// *SyntaxError.
type Scanner struct {
	data []byte
	pos  int

	taken, room int // bytes of memory; see Bound
	more        func(int) (int, error)
}

// NewScanner returns a Scanner over data, which must not change meanwhile:
// returned byte slices may alias it.
func NewScanner(data []byte) *Scanner { return &Scanner{data: data, room: math.MaxInt} }

// Bound bounds the memory of what is made of the input, which can be forty
// times as long: room bytes, and then what more grants when asked for at least
// so many. An error of more ends the reading and is returned as it is.
func (s *Scanner) Bound(room int, more func(atLeast int) (granted int, err error)) {
	s.room, s.more = room, more
}

// Take counts n bytes of memory, roughly, before they are allocated.
func (s *Scanner) Take(n int) error {
	s.taken += n
	if s.taken <= s.room {
		return nil
	}
	granted, err := s.more(s.taken - s.room)
	s.room += granted
	return err
}

// Offset is the number of bytes read so far.
func (s *Scanner) Offset() int { return s.pos }

// Fail returns a SyntaxError with a message at the current position.
func (s *Scanner) Fail(message string) error { return &SyntaxError{Message: message, Offset: s.pos} }

func (s *Scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// Peek skips white space and returns the kind of the next value; TokenEnd at
// the end of the input, an error for a byte no value begins with.
func (s *Scanner) Peek() (Token, error) {
	s.space()
	if s.pos == len(s.data) {
		return TokenEnd, nil
	}
	switch c := s.data[s.pos]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return Token(c), nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return TokenNumber, nil
	}
	return 0, s.Fail("")
}

// End fails unless only white space is left.
func (s *Scanner) End() error {
	s.space()
	if s.pos != len(s.data) {
		return s.Fail("")
	}
	return nil
}

// Open reads the opening bracket t: TokenObject or TokenArray.
func (s *Scanner) Open(t Token) error {
	s.space()
	if s.pos == len(s.data) || s.data[s.pos] != byte(t) {
		return s.Fail("")
	}
	s.pos++
	return nil
}

// NextKey reads the next member name and its colon, or the closing brace, for
// which ok is false. first tells that no member was read yet.
func (s *Scanner) NextKey(first bool) (key []byte, ok bool, err error) {
	if ok, err = s.next('}', first); !ok {
		return nil, false, err
	}
	s.space()
	if key, err = s.Bytes(); err != nil {
		return nil, false, err
	}
	s.space()
	if s.pos == len(s.data) || s.data[s.pos] != ':' {
		return nil, false, s.Fail("")
	}
	s.pos++
	return key, true, nil
}

// NextElement reads up to the next array element, or the closing bracket, for
// which ok is false.
func (s *Scanner) NextElement(first bool) (ok bool, err error) { return s.next(']', first) }

func (s *Scanner) next(closing byte, first bool) (bool, error) {
	s.space()
	if s.pos == len(s.data) {
		return false, s.Fail("")
	}
	switch c := s.data[s.pos]; {
	case c == closing:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		return true, nil
	}
	return false, s.Fail("")
}

// Bytes reads a string. The result aliases the input when it holds no escape.
func (s *Scanner) Bytes() ([]byte, error) {
	if s.pos == len(s.data) || s.data[s.pos] != '"' {
		return nil, s.Fail("")
	}
	start := s.pos + 1
	ascii := true
	for i := start + plainPrefix(s.data[start:]); i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			if !ascii && !utf8.Valid(s.data[start:i]) {
				return nil, s.Fail("")
			}
			return s.data[start:i], nil
		case c == '\\':
			return s.unescape(start, i)
		case c < ' ':
			s.pos = i
			return nil, s.Fail("")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.pos = len(s.data)
	return nil, s.Fail("")
}

// plainPrefix is a number of bytes at the start of b that stand for themselves
// in a string: eight at a time, since most of what is read is text.
func plainPrefix(b []byte) (n int) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		// The high bit of a byte that is none: beyond ASCII, below a space, a quote, a backslash.
		if (x|(x-' '*ones)|((x^'"'*ones)-ones)|((x^'\\'*ones)-ones))&high != 0 {
			break
		}
	}
	return n
}

func (s *Scanner) unescape(start, i int) ([]byte, error) {
	out := bytes.Clone(s.data[start:i])
	for i < len(s.data) {
		c := s.data[i]
		switch {
		case c == '"':
			s.pos = i + 1
			if !utf8.Valid(out) {
				return nil, s.Fail("")
			}
			return out, nil
		case c < ' ':
			s.pos = i
			return nil, s.Fail("")
		case c != '\\':
			out = append(out, c)
			i++
			continue
		}
		var n int
		if out, n = appendEscape(out, s.data[i:]); n == 0 {
			s.pos = i
			return nil, s.Fail("")
		}
		i += n
	}
	s.pos = len(s.data)
	return nil, s.Fail("")
}

// appendEscape appends what the escape at the start of in stands for and
// returns the bytes it takes; 0 when it is none. Lone surrogates are refused:
// they have no UTF-8 form, so the text could not be served again as it came.
func appendEscape(out, in []byte) ([]byte, int) {
	if len(in) < 2 {
		return out, 0
	}
	switch in[1] {
	case '"', '\\', '/':
		return append(out, in[1]), 2
	case 'b':
		return append(out, '\b'), 2
	case 'f':
		return append(out, '\f'), 2
	case 'n':
		return append(out, '\n'), 2
	case 'r':
		return append(out, '\r'), 2
	case 't':
		return append(out, '\t'), 2
	case 'u':
		r := hex4(in[2:])
		if !utf16.IsSurrogate(r) && r >= 0 {
			return utf8.AppendRune(out, r), 6
		}
		if r >= 0 && len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
			if p := utf16.DecodeRune(r, hex4(in[8:])); p != utf8.RuneError {
				return utf8.AppendRune(out, p), 12
			}
		}
	}
	return out, 0
}

func hex4(in []byte) rune {
	if len(in) < 4 {
		return -1
	}
	var r rune
	for _, c := range in[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Literal reads true, false or null.
func (s *Scanner) Literal() error {
	for _, lit := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(lit)) {
			s.pos += len(lit)
			return nil
		}
	}
	return s.Fail("")
}

// RawNumber reads a number and returns its text.
func (s *Scanner) RawNumber() ([]byte, error) {
	start := s.pos
	digits := func() bool {
		from := s.pos
		for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
			s.pos++
		}
		return s.pos > from
	}
	at := func(set string) bool {
		if s.pos < len(s.data) && bytes.IndexByte([]byte(set), s.data[s.pos]) >= 0 {
			s.pos++
			return true
		}
		return false
	}
	at("-")
	if !at("0") && !digits() {
		return nil, s.Fail("")
	}
	if at(".") && !digits() {
		return nil, s.Fail("")
	}
	if at("eE") {
		at("+-")
		if !digits() {
			return nil, s.Fail("")
		}
	}
	return s.data[start:s.pos], nil
}

// Skip reads one value of any kind and depth.
func (s *Scanner) Skip() error {
	var few [MaxNesting]byte
	stack := few[:0] // closing brackets still awaited; one byte per input byte at most
	for {
		t, err := s.Peek()
		if err != nil {
			return err
		}
		opened := false
		switch t {
		case TokenObject, TokenArray:
			stack = append(stack, byte(t)+2) // '{'+2 == '}', '['+2 == ']'
			s.pos++
			opened = true
		case TokenString:
			_, err = s.Bytes()
		case TokenNumber:
			_, err = s.RawNumber()
		case TokenEnd:
			err = s.Fail("")
		default:
			err = s.Literal()
		}
		if err != nil {
			return err
		}
		if stack, err = s.advance(stack, opened); err != nil || len(stack) == 0 {
			return err
		}
	}
}

// advance moves to the next value inside the innermost open bracket, closing
// those that end; it returns the brackets still open.
func (s *Scanner) advance(stack []byte, first bool) ([]byte, error) {
	for len(stack) > 0 {
		var ok bool
		var err error
		if stack[len(stack)-1] == '}' {
			_, ok, err = s.NextKey(first)
		} else {
			ok, err = s.NextElement(first)
		}
		if ok || err != nil {
			return stack, err
		}
		stack, first = stack[:len(stack)-1], false
	}
	return stack, nil
}
