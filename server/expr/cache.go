// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"sync"
)

// Cache keeps the syntax trees of the expressions seen last. It is safe for
// concurrent use and bounded: it holds between n and 2n trees of at most 4,096
// bytes of text each.
type Cache struct {
	n  int
	mu sync.Mutex
	// Two generations: what is asked for moves to young, and when young is
	// full it becomes old and the old ones go.
	young, old map[cacheKey]*tree
}

// cacheKey: condition and filter share trees, as all others differ in grammar.
type cacheKey struct {
	role Role
	text string
}

// NewCache returns a cache of about n expressions; n below 1 keeps none.
func NewCache(n int) *Cache {
	return &Cache{n: n, young: map[cacheKey]*tree{}}
}

// tree returns the tree of text. Texts that do not parse are not kept.
func (c *Cache) tree(role Role, text string, g grammar) (*tree, *Error) {
	key := cacheKey{role, text}
	if role == RoleFilter {
		key.role = RoleCondition
	}
	if t := c.get(key); t != nil {
		return t, nil
	}
	text = strings.Clone(text) // do not pin the request body it may be part of
	t, err := parse(role, text, g)
	if err != nil {
		return nil, err
	}
	key.text = text
	c.put(key, t)
	return t, nil
}

func (c *Cache) get(key cacheKey) *tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.young[key]; t != nil {
		return t
	}
	t := c.old[key]
	if t != nil {
		c.add(key, t)
	}
	return t
}

func (c *Cache) put(key cacheKey, t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, t)
}

func (c *Cache) add(key cacheKey, t *tree) {
	if c.n < 1 {
		return
	}
	if len(c.young) >= c.n {
		c.old, c.young = c.young, make(map[cacheKey]*tree, c.n)
	}
	c.young[key] = t
}

// Condition parses and binds a condition expression (RoleCondition) or filter
// expression (RoleFilter).
func (c *Cache) Condition(p *Placeholders, role Role, text string) (*Condition, error) {
	t, err := c.tree(role, text, parseCondition)
	if err != nil {
		return nil, err
	}
	e := newEnv(p, role, t)
	if err := e.checkNode(t.root); err != nil {
		return nil, err
	}
	return &Condition{env: e, root: t.root}, nil
}

// KeyCondition parses and binds a key condition expression. The rules peculiar
// to key conditions are left to Terms, because the service checks them after
// all other expressions of the request.
func (c *Cache) KeyCondition(p *Placeholders, text string) (*KeyCondition, error) {
	t, err := c.tree(RoleKeyCondition, text, parseCondition)
	if err != nil {
		return nil, err
	}
	e := newEnv(p, RoleKeyCondition, t)
	if err := e.checkNode(t.root); err != nil {
		return nil, err
	}
	return &KeyCondition{env: e, root: t.root}, nil
}

// Projection parses and binds a projection expression.
func (c *Cache) Projection(p *Placeholders, text string) (*Projection, error) {
	t, err := c.tree(RoleProjection, text, parseProjection)
	if err != nil {
		return nil, err
	}
	e := newEnv(p, RoleProjection, t)
	for _, path := range t.paths {
		if err := e.checkPath(path); err != nil {
			return nil, err
		}
	}
	tree, err := e.pathTree(len(t.paths), func(i int) []step { return t.paths[i] })
	if err != nil {
		return nil, err
	}
	return &Projection{env: e, paths: t.paths, tree: tree}, nil
}

// Update parses and binds an update expression.
func (c *Cache) Update(p *Placeholders, text string) (*Update, error) {
	t, err := c.tree(RoleUpdate, text, parseUpdate)
	if err != nil {
		return nil, err
	}
	e := newEnv(p, RoleUpdate, t)
	tree, err := e.checkUpdate(t.clauses)
	if err != nil {
		return nil, err
	}
	return &Update{env: e, clauses: t.clauses, tree: tree}, nil
}
