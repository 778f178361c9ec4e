// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEOF   tokenKind = iota
	tokName            // attribute, function or keyword
	tokAlias           // #name
	tokParam           // :value
	tokInt
	tokPunct // one of ( ) [ ] . , = <> < <= > >= + -
	tokBad   // a character the language has no use for
)

// token is source[start:end].
type token struct {
	kind       tokenKind
	start, end int
}

// lex splits the text into tokens; the last is tokEOF. It never fails: what it
// does not know is a tokBad, which no rule of the grammar accepts.
func lex(text string) []token {
	tokens := make([]token, 0, len(text)/3+2)
	for i := 0; i < len(text); {
		t := token{start: i}
		c := text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '#' || c == ':':
			t.end = skipWord(text, i+1)
			t.kind = tokAlias
			if c == ':' {
				t.kind = tokParam
			}
			if t.end == i+1 {
				t.kind = tokBad
			}
		case isDigit(c):
			t.end = i + 1
			for t.end < len(text) && isDigit(text[t.end]) {
				t.end++
			}
			t.kind = tokInt
		case isWordByte(c):
			t.kind, t.end = tokName, skipWord(text, i)
		case (c == '<' || c == '>') && i+1 < len(text) && (text[i+1] == '=' || c == '<' && text[i+1] == '>'):
			t.kind, t.end = tokPunct, i+2
		case strings.IndexByte("()[].,=<>+-", c) >= 0:
			t.kind, t.end = tokPunct, i+1
		default:
			_, n := utf8.DecodeRuneInString(text[i:])
			t.kind, t.end = tokBad, i+n
		}
		tokens = append(tokens, t)
		i = t.end
	}
	return append(tokens, token{kind: tokEOF, start: len(text), end: len(text)})
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWordByte(c byte) bool {
	return isDigit(c) || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func skipWord(text string, i int) int {
	for i < len(text) && isWordByte(text[i]) {
		i++
	}
	return i
}
