// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os"
	"path/filepath"
	"time"
)

// prefix begins the names of data directories.
const prefix = "extenddb-postgres-"

// staleAge is how long nobody started a server in a directory that is taken for
// left behind; no test runs for so long.
const staleAge = 24 * time.Hour

// sweep removes data directories that runs of a machine that went down have
// left: those of ours that are old and have no server. What cannot be removed
// stays: it is in nobody's way.
func sweep(parent string, user *account) {
	dirs, _ := filepath.Glob(filepath.Join(parent, prefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !user.owns(info) || time.Since(info.ModTime()) < staleAge {
			continue
		}
		if pid, err := pidOf(dir); err == nil && alive(pid) {
			continue
		}
		_ = os.RemoveAll(dir)
	}
}
