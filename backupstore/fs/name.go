// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/extenddb/extenddb/backupstore"
)

const (
	tempPrefix = ".put-"
	tempSuffix = ".tmp"
	// lockName is the file that makes a directory a store, and that puts lock.
	// It is hidden like the temporary files, in the root only.
	lockName = ".extenddb-store"
	// maxName is the longest component file systems take, in bytes.
	maxName = 255
)

func tempName() string { return tempPrefix + uuid.NewString() + tempSuffix }

func isTemp(name string) bool {
	return len(name) >= len(tempPrefix)+len(tempSuffix) &&
		strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// isAccount reports whether a name is an account's: 12 digits.
func isAccount(name string) bool {
	return len(name) == 12 && strings.Trim(name, "0123456789") == ""
}

// splitKey checks a key and cuts it into the components of its directory and
// its last one.
func splitKey(key string) (dirs []string, name string, err error) {
	if err := backupstore.CheckKey(key); err != nil {
		return nil, "", err
	}
	dirs, name, err = split(key)
	switch {
	case err != nil:
	case isTemp(name):
		err = fmt.Errorf("%w: key ends in %q, a name kept for temporary files", backupstore.ErrInvalidKey, name)
	case key == lockName:
		err = fmt.Errorf("%w: %q is the name of the file that marks a store", backupstore.ErrInvalidKey, key)
	}
	return dirs, name, err
}

// splitPrefix is splitKey for a prefix; the name is empty when everything is
// meant.
func splitPrefix(prefix string) (dirs []string, name string, err error) {
	clean, err := backupstore.CleanPrefix(prefix)
	if err != nil || clean == "" {
		return nil, "", err
	}
	return split(clean)
}

func split(key string) (dirs []string, name string, err error) {
	all := strings.Split(key, "/")
	for _, c := range all {
		if len(c) > maxName {
			return nil, "", fmt.Errorf("%w: key component is %d bytes; the maximum in a directory is %d",
				backupstore.ErrInvalidKey, len(c), maxName)
		}
	}
	return all[:len(all)-1], all[len(all)-1], nil
}

func denied(what string) error { return fmt.Errorf("%w: %s", backupstore.ErrPermission, what) }
