// SPDX-License-Identifier: Apache-2.0

package ddb

import (
	"encoding/base64"
	"slices"
	"unicode/utf8"
)

// AppendItem appends the canonical DynamoDB JSON of it: compact, members
// sorted by their UTF-8 bytes, sets sorted, numbers in plain digits, strings
// escaped as AppendString does. Equal items give equal bytes.
func AppendItem(dst []byte, it Item) []byte { return appendItem(dst, it, plain) }

// AppendBackupItem appends it as a backup line holds it: as AppendItem, but a
// number whose plain form exceeds 40 characters in its exponent form. It
// differs from AppendItem only when it.HasLongNumber.
func AppendBackupItem(dst []byte, it Item) []byte { return appendItem(dst, it, backup) }

// notation says how numbers are written.
type notation bool

const (
	plain  notation = false // in plain digits, always
	backup notation = true  // in the exponent form when the plain one is long
)

func appendItem(dst []byte, it Item, n notation) []byte {
	var few [16]string
	dst = append(dst, '{')
	for i, name := range it.names(few[:0]) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, name)
		dst = append(dst, ':')
		dst = appendValue(dst, it[name], n)
	}
	return append(dst, '}')
}

// AppendValue appends the canonical DynamoDB JSON of v, {"S":"…"}.
func AppendValue(dst []byte, v Value) []byte { return appendValue(dst, v, plain) }

func appendValue(dst []byte, v Value, n notation) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, v.kind.String()...)
	dst = append(dst, '"', ':')
	switch v.kind {
	case KindS, KindN, KindB:
		dst = appendScalar(dst, v.kind, v.s, n)
	case KindBOOL:
		if v.b {
			dst = append(dst, "true"...)
		} else {
			dst = append(dst, "false"...)
		}
	case KindNULL:
		dst = append(dst, "true"...)
	case KindM:
		dst = appendItem(dst, v.Map(), n)
	case KindL:
		dst = append(dst, '[')
		for i, e := range v.List() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e, n)
		}
		dst = append(dst, ']')
	default:
		dst = append(dst, '[')
		for i, m := range v.Set() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendScalar(dst, v.kind.Element(), m, n)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendScalar(dst []byte, k Kind, s string, n notation) []byte {
	switch k {
	case KindN:
		if n == backup && len(s) > longNumber {
			s = mustNumber(s).Scientific()
		}
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	case KindB:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, []byte(s))
		return append(dst, '"')
	}
	return AppendString(dst, s)
}

// AppendScalar appends the canonical DynamoDB JSON of the S, N or B whose Str
// is text, for those who have it without a Value. An S must be valid UTF-8.
func AppendScalar(dst []byte, k Kind, text []byte) []byte {
	dst = append(dst, '{', '"')
	dst = append(dst, k.String()...)
	dst = append(dst, '"', ':')
	switch {
	case k == KindB:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, text)
		dst = append(dst, '"')
	case k == KindS && slices.ContainsFunc(text[plainPrefix(text):], isSpecial):
		dst = AppendString(dst, string(text))
	default:
		dst = append(dst, '"')
		dst = append(dst, text...)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// isSpecial reports whether a byte of valid UTF-8 is escaped in a string.
func isSpecial(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// AppendString appends s as a JSON string with the fewest escapes JSON allows:
// quote, backslash and control characters. Invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[from:i]...)
				dst = append(dst, "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
