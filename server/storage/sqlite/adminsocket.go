// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Resolve returns where the database of that path really is: absolute and
// without symbolic links, also when it is still to be made. Errors name path;
// fs.ErrNotExist when its directory is not there.
func Resolve(path string) (string, error) {
	real, err := resolve(path)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	return real, nil
}

// AdminSocket returns where the process that holds the database of that path,
// or held it last, is administered; "" when it said nothing. Whether it still
// listens there is for the caller to try.
func AdminSocket(path string) (string, error) {
	real, err := Resolve(path)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(real + lockSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read lock file: %w", err)
	}
	if !strings.HasPrefix(string(text), lockText) { // another program's, or being written
		return "", nil
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	line, _, whole := strings.Cut(rest, "\n")
	socket, ok := strings.CutPrefix(line, socketText)
	if !ok || !whole {
		return "", nil
	}
	return socket, nil
}
