// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"strings"

	"github.com/extenddb/extenddb/backupstore"
)

func keyChecks() []check {
	return []check{
		{"key/invalid", invalidKeys},
		{"key/invalid prefix", invalidPrefixes},
		{"key/longest", longestKeys},
		{"key/unusual", unusualKeys},
	}
}

// badKeys are keys that no store takes, and the rule each breaks.
var badKeys = []struct{ key, rule string }{
	{"", "key is empty"},
	{"/", "empty component"},
	{"/abs", "empty component"},
	{"trail/", "empty component"},
	{"dou//ble", "empty component"},
	{".", "key component '.' is not allowed"},
	{"..", "key component '..' is not allowed"},
	{"dot/./inner", "key component '.' is not allowed"},
	{"dot/../escape", "key component '..' is not allowed"},
	{"../up", "key component '..' is not allowed"},
	{"up/..", "key component '..' is not allowed"},
	{`back\slash`, "backslash"},
	{`seg/back\slash`, "backslash"},
	{"ctl\x00char", "control character"},
	{"ctl/\x1f", "control character"},
	{"ctl/\u0085", "control character"},
	{"utf/\xff", "not valid UTF-8"},
	{strings.Repeat("abc/", 299) + "abcd", "key is 1200 bytes; the maximum is 1024"},
	{strings.Repeat("abcd/", 205), "key is 1025 bytes; the maximum is 1024"},
}

func (e *env) invalid(what string, err error, rule string) {
	e.Helper()
	if !errors.Is(err, backupstore.ErrInvalidKey) || !strings.Contains(err.Error(), rule) {
		e.Fatalf("%s: error %v, want an invalid key: %s", what, err, rule)
	}
}

func invalidKeys(e *env) {
	for _, bad := range badKeys {
		_, err := e.try(bad.key, "x", backupstore.PutOptions{})
		e.invalid("put "+bad.key, err, bad.rule)
		r, err := e.s.Get(e.ctx, bad.key)
		if err == nil {
			_ = r.Close()
		}
		e.invalid("get "+bad.key, err, bad.rule)
		_, err = e.s.Head(e.ctx, bad.key)
		e.invalid("head "+bad.key, err, bad.rule)
	}
	e.lists("")
}

func invalidPrefixes(e *env) {
	e.put("a/b", "x")
	for _, bad := range []struct{ prefix, rule string }{
		{"/", "prefix consists only of a separator"},
		{"a//", "empty component"},
		{"/a", "empty component"},
		{"a/../a", "key component '..' is not allowed"},
		{`a\b`, "backslash"},
		{"a\x7f", "control character"},
	} {
		_, err := e.list(bad.prefix)
		e.invalid("list "+bad.prefix, err, bad.rule)
		n, err := e.s.DeletePrefix(e.ctx, bad.prefix)
		e.invalid("delete "+bad.prefix, err, bad.rule)
		equal(e, "deleted", n, 0)
	}
	e.holds("a/b", "x")
}

func longestKeys(e *env) {
	wide := strings.Repeat(strings.Repeat("w", 255)+"/", 3) + strings.Repeat("w", 256-2) + "/z"
	deep := strings.Repeat("d/", 100) + strings.Repeat("e", 255)
	multi := strings.Repeat("ü", 127) + "/" + strings.Repeat("€", 85)
	for _, key := range []string{wide, deep, multi} {
		e.put(key, "x")
		e.holds(key, "x")
	}
	equal(e, "length", len(wide), 1024)
	e.lists("", deep, wide, multi)
	e.deletes("", 3)
	e.lists("")
}

func unusualKeys(e *env) {
	keys := []string{" ", "!", "#hash", "%41", "&amp", "'quote", "+", "...", "..a", ".a", "0=1", "?q=1", "@", "[x]", "`", "a b", "a:b", "{}", "~", "ß", "～", "𝄞"}
	for _, c := range keys {
		e.put("odd/"+c+"/x", c)
	}
	for _, c := range keys {
		e.holds("odd/"+c+"/x", c)
		e.lists("odd/"+c, "odd/"+c+"/x")
	}
	e.deletes("odd/%41", 1)
	e.deletes("odd", len(keys)-1)
}
