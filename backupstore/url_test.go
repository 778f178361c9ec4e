// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ path, canonical string }{
		"file:///abs/dir":           {"/abs/dir", "file:///abs/dir"},
		"FILE:///abs/dir/":          {"/abs/dir/", "file:///abs/dir/"},
		"file:/abs/dir":             {"/abs/dir", "file:///abs/dir"},
		"file:///":                  {"/", "file:///"},
		"file:backups/daily":        {"backups/daily", "file:backups/daily"},
		"file:./backups":            {"./backups", "file:./backups"},
		"file:///my%20dir/100%25":   {"/my dir/100%", "file:///my%20dir/100%25"},
		"file:///a%3Fb%23c":         {"/a?b#c", "file:///a%3Fb%23c"},
		"file:///my dir":            {"/my dir", "file:///my%20dir"},
		"file:///C:/backups":        {"/C:/backups", "file:///C:/backups"},
		"file:///b%C3%BCcher/plus+": {"/bücher/plus+", "file:///b%C3%BCcher/plus+"},
		"file:////double":           {"//double", "file:////double"},
	} {
		got, err := ParseURL(text)
		if err != nil || got.Scheme != SchemeFile || got.Path != want.path || got.String() != want.canonical {
			t.Errorf("%s: %q, %s, %v", text, got.Path, got, err)
		}
		if again, err := ParseURL(got.String()); again != got || err != nil {
			t.Errorf("%s: read again as %+v, %v", got, again, err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "store URL is empty; write file:///DIRECTORY",
		"/srv/backups":              `"/srv/backups" is a path, not a store URL; write file:///srv/backups`,
		"my dir":                    `"my dir" is a path, not a store URL; write file:my%20dir`,
		"./a:b":                     `"./a:b" is a path, not a store URL; write file:./a:b`,
		`C:\backups\x`:              `"C:\\backups\\x" is a path, not a store URL; write file:///C:/backups/x`,
		"C:/backups":                `"C:/backups" is a path, not a store URL; write file:///C:/backups`,
		"s3://bucket/prefix":        "s3 stores are not available in this version; file:///DIRECTORY is",
		"s3://AKIA:SECRET@bucket":   "s3 stores are not available in this version; file:///DIRECTORY is",
		"http://u:SECRET@host/x":    `store URLs with the scheme "http" are unknown; file:///DIRECTORY exists`,
		"file:":                     "store URL names no directory; write file:///DIRECTORY",
		"file://":                   "store URL names no directory; write file:///DIRECTORY",
		"file://srv/backups":        `file store URLs name no host, this one names "srv"; an absolute directory has three slashes: file:///DIRECTORY`,
		"file://u:SECRET@h/backups": `file store URLs name no host, this one names "h"; an absolute directory has three slashes: file:///DIRECTORY`,
		"file:///a?key=SECRET":      `file store URLs have no query; in the name of a directory write %3F for '?'`,
		"file:///a#SECRET":          `file store URLs have no fragment; in the name of a directory write %23 for '#'`,
		"file:///a%00b":             "store URL: a directory cannot have NUL in its name",
		"file:///a%zz":              `store URL: invalid URL escape "%zz"; write %25 for a percent sign`,
	} {
		got, err := ParseURL(text)
		if err == nil || err.Error() != want || got != (Location{}) {
			t.Errorf("%s: %+v, %v\nwant %s", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%v tells a secret", err)
		}
	}
}

// FuzzParseURL: what is understood is understood again as it is written.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"file:///a", "file:a", "file:////a", "s3://b", "/a", "file:///%41", "file://h/", "C:x", "file:a:b", "file:%2F%2Fa"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseURL(s)
		if err != nil {
			return
		}
		again, err := ParseURL(l.String())
		if err != nil || again != l || l.Path == "" || strings.Contains(l.Path, "\x00") {
			t.Fatalf("%q is %+v, written %s, read again as %+v, %v", s, l, l, again, err)
		}
	})
}
