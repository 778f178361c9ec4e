// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime"
	"strings"
	"unicode"
)

// shellWord is a text as one word of a command line; ok is false when there is
// no safe way to write it.
func shellWord(s string) (word string, ok bool) { return wordOf(s, runtime.GOOS == "windows") }

func wordOf(s string, windows bool) (string, bool) {
	special := func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_@+=:,./-", r) || windows && r == '\\')
	}
	switch {
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return "", false
	case s != "" && !strings.ContainsFunc(s, special):
		return s, true
	case windows:
		return `"` + s + `"`, !strings.ContainsAny(s, `"%!`)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", true
}

// shown is a word for a command line, or else how its text is to be replaced.
func shown(s, instead string) string {
	if word, ok := shellWord(s); ok {
		return word
	}
	return instead
}

// sameStorage is a command for the database of the settings: with the storage
// as this one got it. It never has a password in it.
func (v values) sameStorage(command string) string {
	s := v["storage.url"]
	switch s.Origin {
	case "flag":
		if word, ok := shellWord(s.Value); ok && maskPassword(s.Value) == s.Value {
			return command + " --storage " + word
		}
		return command + ", with the same --storage"
	case "env", "file":
		return command + ", with " + printable(s.Source) + " as it is"
	}
	return command + ", in this directory"
}
