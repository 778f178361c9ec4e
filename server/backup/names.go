// SPDX-License-Identifier: Apache-2.0

package backup

import "time"

// Bounds of the names of tables, indexes and backups.
const (
	minName = 3
	maxName = 255
)

// isName reports whether s is made of the characters of names,
// [a-zA-Z0-9_.-], and has 3 to 255 of them.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return minName <= len(s) && len(s) <= maxName
}

// CheckTableName returns an *Error when no table can have the name.
func CheckTableName(name string) error { return checkName("table name", name) }

// checkName refuses a name of a table or a backup; what says whose it is.
func checkName(what, name string) error {
	if isName(name) {
		return nil
	}
	return errorf(Invalid, "%s %q is not valid", what, name).
		hint("names have 3 to 255 characters: a-z A-Z 0-9 _ . -")
}

// defaultName is the name of a backup that was given none: the table's, cut
// where it is too long, and the time, to the millisecond: two backups of a
// second can be told apart by name.
func defaultName(table string, at time.Time) string {
	suffix := at.UTC().Format("-20060102-150405.000")
	return table[:min(len(table), maxName-len(suffix))] + suffix
}
