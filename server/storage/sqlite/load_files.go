// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/extenddb/extenddb/server/storage"
)

// Runs are beside the database, where there is the most room: in
// <database>.load-<table>-<number>.tmp.
const (
	loadInfix  = ".load-"
	loadSuffix = ".tmp"
)

// loadFiles names the files of a load.
func loadFiles(db string, t storage.TableID) func(n int) string {
	return func(n int) string { return fmt.Sprintf("%s%s%d-%d%s", db, loadInfix, t, n, loadSuffix) }
}

// sweepLoads removes what loads left that ended with their process. The lock
// is held: there is no other.
func sweepLoads(db string) error {
	dir := filepath.Dir(db)
	files, err := os.ReadDir(dir)
	errs := []error{err}
	for _, f := range files {
		if isLoadFile(filepath.Base(db), f.Name()) {
			errs = append(errs, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return errors.Join(errs...)
}

// isLoadFile reports whether name is one that loadFiles makes.
func isLoadFile(db, name string) bool {
	rest, ok := strings.CutPrefix(name, db+loadInfix)
	if !ok {
		return false
	}
	rest, ok = strings.CutSuffix(rest, loadSuffix)
	table, number, both := strings.Cut(rest, "-")
	return ok && both && isNumber(table) && isNumber(number)
}

func isNumber(s string) bool {
	n, err := strconv.ParseUint(s, 10, 63)
	return err == nil && strconv.FormatUint(n, 10) == s
}
