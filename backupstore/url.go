// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// SchemeFile is the scheme of a store in a directory.
const SchemeFile = "file"

// Location is where a store is: what a store URL says.
type Location struct {
	Scheme string // SchemeFile
	// Path is the directory, with "/" between its components. It may be
	// relative ("file:backups"): whoever knows what to makes it absolute.
	Path string
}

// String returns the URL: file:///DIRECTORY, or file:DIRECTORY when the path
// is relative.
func (l Location) String() string {
	escaped := (&url.URL{Path: l.Path}).EscapedPath()
	if strings.HasPrefix(escaped, "/") {
		return l.Scheme + "://" + escaped
	}
	return l.Scheme + ":" + escaped
}

// scheme is what RFC 3986 lets one be, but for a single letter: that is a
// drive of Windows.
const scheme = `^[A-Za-z][A-Za-z0-9+.-]+$`

// ParseURL reads a store URL. Its errors repeat no user information, query or
// fragment: they may be credentials.
func ParseURL(s string) (Location, error) {
	name, rest, found := strings.Cut(s, ":")
	isURL, err := regexp.MatchString(scheme, name)
	if err != nil {
		return Location{}, err
	}
	switch {
	case s == "":
		return Location{}, errors.New("store URL is empty; write file:///DIRECTORY")
	case !found || !isURL:
		return Location{}, fmt.Errorf("%q is a path, not a store URL; write %s", s, pathURL(s))
	}
	switch strings.ToLower(name) {
	case SchemeFile:
		return parseFile(rest)
	case "s3":
		return Location{}, errors.New("s3 stores are not available in this version; file:///DIRECTORY is")
	}
	return Location{}, fmt.Errorf("store URLs with the scheme %q are unknown; file:///DIRECTORY exists", name)
}

// pathURL is the URL of a path as somebody typed it.
func pathURL(path string) string {
	if len(path) > 1 && path[1] == ':' { // a drive of Windows
		path = "/" + strings.ReplaceAll(path, `\`, "/")
	}
	return Location{Scheme: SchemeFile, Path: path}.String()
}

func parseFile(rest string) (Location, error) {
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		what, code := "query", "%3F"
		if rest[i] == '#' {
			what, code = "fragment", "%23"
		}
		return Location{}, fmt.Errorf("file store URLs have no %s; in the name of a directory write %s for %q", what, code, rest[i])
	}
	escaped := rest
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		host, path, _ := strings.Cut(authority, "/")
		if host != "" {
			host = host[strings.LastIndex(host, "@")+1:]
			return Location{}, fmt.Errorf("file store URLs name no host, this one names %q; an absolute directory has three slashes: file:///DIRECTORY", host)
		}
		if escaped = "/" + path; authority == "" {
			escaped = ""
		}
	}
	path, err := url.PathUnescape(escaped)
	switch {
	case err != nil:
		return Location{}, fmt.Errorf("store URL: %w; write %%25 for a percent sign", err)
	case path == "":
		return Location{}, errors.New("store URL names no directory; write file:///DIRECTORY")
	case strings.Contains(path, "\x00"):
		return Location{}, errors.New("store URL: a directory cannot have NUL in its name")
	}
	return Location{Scheme: SchemeFile, Path: path}, nil
}
