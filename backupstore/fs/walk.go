// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"
)

// chain is a path of open directories, from the root to the one that matters.
type chain struct {
	dirs []*dir
	made int // how many of the last ones this call created
}

func (c *chain) last() *dir { return c.dirs[len(c.dirs)-1] }

func (c *chain) close() {
	for _, d := range c.dirs {
		d.close()
	}
}

// absent reports whether an error says that there is nothing.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// walk opens the directories; an absent error when there are none such.
func (s *Store) walk(names []string) (*chain, error) {
	c := &chain{dirs: []*dir{s.root}}
	for _, name := range names {
		next, _, err := c.last().child(name)
		if err != nil {
			c.close()
			return nil, err
		}
		c.dirs = append(c.dirs, next)
	}
	return c, nil
}

// errAncestor is an object in the place of a directory.
var errAncestor = fmt.Errorf("an object already exists at an ancestor of the key: %w", syscall.ENOTDIR)

// makeDirs opens the directories, creating what is missing, and makes sure
// that the entry of each is durable. On failure it leaves none behind that it
// created.
func (s *Store) makeDirs(names []string) (_ *chain, err error) {
	c := &chain{dirs: []*dir{s.root}}
	defer func() {
		if err != nil {
			s.undo(c)
		}
	}()
	for _, name := range names {
		if err := s.descend(c, name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// descend adds the directory name to the chain.
func (s *Store) descend(c *chain, name string) error {
	d := c.last()
	next, info, err := d.child(name)
	made := false
	if errors.Is(err, fs.ErrNotExist) {
		err = d.mkdir(name)
		made = err == nil
		if err == nil || errors.Is(err, fs.ErrExist) { // another put made it
			next, info, err = d.child(name)
		}
	}
	if err != nil {
		if made {
			_, undo := d.rmdir(name)
			s.leftover(d.at(name), undo)
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return errAncestor
		}
		return err
	}
	c.dirs = append(c.dirs, next)
	if made {
		c.made++
	} else {
		c.made = 0 // what is above belongs to another put by now
	}
	if !made && s.isSynced(next.path, info) {
		return nil
	}
	if err := d.sync(); err != nil {
		return err
	}
	s.setSynced(next.path, info)
	return nil
}

// undo removes the directories that this call created, as far as they are
// empty, and closes the chain.
func (s *Store) undo(c *chain) {
	defer c.close()
	s.leftover(c.last().path, c.prune(c.made))
}

// leftover takes down that something could not be cleaned up: the caller has
// a better error to return, or none.
func (s *Store) leftover(path string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("cleaning up in the backup store failed", "path", path, "err", err)
	}
}

// prune removes the last n directories of the chain, from the last one up
// until one is not empty, and makes that durable.
func (c *chain) prune(n int) error {
	gone := false
	for ; n > 0; n-- {
		d := c.last()
		parent := c.dirs[len(c.dirs)-2]
		d.close()
		c.dirs = c.dirs[:len(c.dirs)-1]
		empty, err := parent.rmdir(path.Base(d.path))
		if err != nil {
			return err
		}
		if !empty {
			break
		}
		gone = true
	}
	if !gone {
		return nil
	}
	return c.last().sync()
}
