// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/extenddb/extenddb/server/storage"
)

// tokenLife is how long a token of WriteAll is remembered.
const tokenLife = 10 * time.Minute

// unseen is the version of a row that nobody read: it never matches.
const unseen = -1

// change is a Write on its way. What was decided beforehand, on a reader, in
// the caller's own goroutine, counts when the writer finds the row and the
// definition as they were then.
type change struct {
	w    storage.Write
	t    *storage.Table  // the definition Decide ran with; nil before
	ver  int64           // of the row it ran with; 0 absent
	any  bool            // the row does not matter: see blind
	cur  *storage.Row    // the row it ran with, when the table has a stream
	next *storage.Next   // its answer, nil to delete
	old  []storage.Entry // those of the row it ran with
	err  error           // its refusal
	id   int64           // of the row as the writer found it; 0 absent
}

// decide runs Decide with the row, which may be nil.
func (c *change) decide(t *storage.Table, cur *storage.Row) error {
	made, err := c.w.Decide.Run(t, cur)
	c.t, c.ver, c.next, c.old, c.err, c.cur = t, 0, made.Next, made.Old, made.Err, nil
	if cur != nil {
		c.ver = cur.Ver
		if t.HasStream() {
			c.cur = cur
		}
	}
	return err
}

// idle reports whether nothing is to be written.
func (c *change) idle() bool {
	return c.err != nil || c.next == storage.Unchanged || c.next == nil && c.ver == 0 && !c.any
}

// blind reports whether the row as it is matters to nobody: neither to Decide
// nor to an index or a stream.
func (c *change) blind(t *storage.Table) bool {
	return c.w.Blind && len(t.Indexes) == 0 && !t.HasStream()
}

// bytes is about how much is written.
func (c *change) bytes() (n int) {
	if c.next != nil {
		n = len(c.next.Item)
	}
	if c.t != nil && c.t.HasStream() { // into the record too
		n *= 2
		if c.cur != nil {
			n += len(c.cur.Item)
		}
	}
	return n
}

// prepare decides beforehand. settled: the answer holds as it is, because it
// changes nothing and the row it rests on was committed.
func (db *DB) prepare(ctx context.Context, c *change) (settled bool, err error) {
	t, err := db.cat.Load().usable(c.w.Table.ID)
	if err != nil {
		return true, err
	}
	if c.blind(t) {
		c.any = true
		err := c.decide(t, nil)
		return c.idle(), err
	}
	var row *storage.Row
	err = db.readInside(ctx, func(s *session) error {
		return db.view(s, func() (err error) {
			row, err = s.get(t.ID, c.w.Key)
			return err
		}, t)
	})
	switch {
	case err == nil:
		err = c.decide(t, row)
		return c.idle(), err
	case isContext(ctx, err):
		return true, err
	}
	c.t, c.ver = nil, unseen // the definition changes just now, or reading failed
	return false, nil
}

// Write implements storage.Writer.
func (db *DB) Write(ctx context.Context, w storage.Write) (storage.Result, error) {
	r := db.WriteEach(ctx, []storage.Write{w})[0]
	return r, r.Err
}

// WriteEach implements storage.Writer.
func (db *DB) WriteEach(ctx context.Context, ws []storage.Write) []storage.Result {
	if err := db.life.Enter(); err != nil {
		return storage.Failed(ws, err)
	}
	defer db.life.Leave()
	results := make([]storage.Result, len(ws))
	changes, reqs := make([]change, len(ws)), make([]*request, 0, len(ws))
	owners := make([]int, 0, len(ws))
	for i, w := range ws {
		c := &changes[i]
		c.w = w
		settled, err := db.prepare(ctx, c)
		if settled || err != nil {
			results[i] = c.result(err)
			continue
		}
		reqs = append(reqs, &request{apply: func(tx *tx) error { return tx.write(c) }, bytes: c.bytes()})
		owners = append(owners, i)
	}
	db.w.do(ctx, reqs...)
	for j, r := range reqs {
		results[owners[j]] = changes[owners[j]].result(r.err)
	}
	return results
}

// result is the answer; err is what kept the change from being carried out.
func (c *change) result(err error) storage.Result {
	r := storage.Result{Table: c.t, Err: err}
	if r.Table == nil {
		r.Table = c.w.Table
	}
	if err == nil {
		r.Err = c.err
	}
	return r
}

// WriteAll implements storage.Writer.
func (db *DB) WriteAll(ctx context.Context, ws []storage.Write, token *storage.Token) ([]storage.Result, error) {
	if err := db.life.Enter(); err != nil {
		return nil, err
	}
	defer db.life.Leave()
	changes, req := make([]change, len(ws)), &request{}
	for i, w := range ws {
		changes[i].w = w
		// Whether a table is missing matters only when the token is new.
		if _, err := db.prepare(ctx, &changes[i]); err != nil && !errors.Is(err, storage.ErrTableNotFound) {
			return nil, err
		}
		req.bytes += changes[i].bytes()
		if storage.IsFinal(changes[i].err) {
			break // the writer sees to it that this holds
		}
	}
	req.apply = func(tx *tx) error { return tx.writeAll(changes, token) }
	db.w.do(ctx, req)
	var cancelled *storage.Cancelled
	if req.err != nil && !errors.As(req.err, &cancelled) {
		return nil, req.err
	}
	results := make([]storage.Result, len(ws))
	for i := range changes {
		results[i] = changes[i].result(nil)
	}
	return results, req.err
}

// write carries one change out. Its refusal is in c, and is also returned.
func (tx *tx) write(c *change) error {
	if _, err := tx.settle(c); err != nil {
		return err
	}
	if c.err != nil {
		return c.err
	}
	return tx.store(c)
}

func (tx *tx) writeAll(cs []change, token *storage.Token) error {
	if err := tx.checkToken(token); err != nil {
		return err
	}
	reasons, refused, moved := make([]error, len(cs)), false, false
	for i := range cs {
		if moved && storage.IsFinal(cs[i].err) { // it may rest on what was decided of the others
			cs[i].t = nil
		}
		again, err := tx.settle(&cs[i])
		if err != nil {
			return err
		}
		moved = moved || again
		reasons[i] = cs[i].err
		refused = refused || cs[i].err != nil
		if storage.IsFinal(cs[i].err) {
			break
		}
	}
	if refused {
		return &storage.Cancelled{Reasons: reasons}
	}
	for i := range cs {
		if err := tx.store(&cs[i]); err != nil {
			return err
		}
	}
	return tx.keepToken(token)
}

func (tx *tx) checkToken(token *storage.Token) error {
	if token == nil {
		return nil
	}
	st, err := tx.w.s.stmt(sqlToken)
	if err != nil {
		return err
	}
	st.bindBlob(1, []byte(token.Account))
	st.bindBlob(2, []byte(token.Token))
	found, err := st.step()
	if err != nil || !found {
		return err
	}
	defer st.reset()
	switch {
	case st.colInt(1) <= millis(token.Now):
		return nil
	case string(st.colBlob(0)) == string(token.Digest[:]):
		return storage.ErrReplayed
	}
	return storage.ErrTokenMismatch
}

func (tx *tx) keepToken(token *storage.Token) error {
	if token == nil {
		return nil
	}
	return tx.run(sqlSetToken, []byte(token.Account), []byte(token.Token), token.Digest[:], millis(token.Now.Add(tokenLife)))
}

// settle makes sure that what was decided holds for the row as it is now. again:
// it had to be decided again.
func (tx *tx) settle(c *change) (again bool, err error) {
	t, err := tx.cat.usable(c.w.Table.ID)
	if err != nil {
		return false, err
	}
	st, err := tx.w.s.stmt(sqlFind)
	if err != nil {
		return false, err
	}
	st.bindInt(1, int64(t.ID))
	st.bindBlob(2, c.w.Key.PK)
	st.bindBlob(3, c.w.Key.SK)
	found, err := st.step()
	if err != nil {
		return false, err
	}
	ver := int64(0)
	if c.id = 0; found {
		c.id, ver = st.colInt(0), st.colInt(1)
		st.reset()
	}
	if c.t != nil && c.t.Version == t.Version && (c.any || c.ver == ver) {
		return false, nil
	}
	var row *storage.Row
	if found {
		if row, err = tx.w.s.get(t.ID, c.w.Key); err != nil {
			return false, err
		}
	}
	c.any = c.blind(t)
	return true, c.decide(t, row)
}

// store writes what a settled change decided.
func (tx *tx) store(c *change) error {
	if c.next == storage.Unchanged || c.next == nil && c.id == 0 {
		return nil
	}
	var fresh []storage.Entry
	ver, err := int64(0), tx.mark()
	switch {
	case err != nil:
	case c.next == nil:
		err = tx.run(sqlDelete, c.id)
	default:
		fresh = c.next.Entries
		ver, err = tx.put(c)
	}
	if err == nil {
		err = tx.moveEntries(c, fresh)
	}
	if err == nil {
		err = tx.record(c, ver)
	}
	if err != nil {
		return err
	}
	id := c.t.ID
	tx.onCommit(func() { tx.w.db.stats.touch(id) })
	return nil
}

// put stores the row and returns its version.
func (tx *tx) put(c *change) (ver int64, err error) {
	if ver, err = tx.nextVer(); err != nil {
		return 0, err
	}
	n := c.next
	if c.id != 0 {
		st, err := tx.w.s.stmt(sqlUpdate)
		if err != nil {
			return 0, err
		}
		st.bindInt(1, ver)
		st.bindInt(2, int64(n.Size))
		st.bindInt(3, int64(n.Flags))
		st.bindBlob(4, n.Item)
		st.bindInt(5, c.id)
		return ver, st.run()
	}
	c.id, err = tx.insert(c.t.ID, c.w.Key, n, ver)
	return ver, err
}

// insert adds a row and returns its id.
func (tx *tx) insert(t storage.TableID, k storage.Key, n *storage.Next, ver int64) (id int64, err error) {
	st, err := tx.w.s.stmt(sqlInsert)
	if err != nil {
		return 0, err
	}
	st.bindInt(1, int64(t))
	st.bindBlob(2, k.PK)
	st.bindBlob(3, k.SK)
	st.bindInt(4, ver)
	st.bindInt(5, int64(n.Size))
	st.bindInt(6, int64(n.Flags))
	st.bindBlob(7, n.Item)
	if err := st.run(); err != nil {
		return 0, err
	}
	return tx.w.s.c.lastID(), tx.noteKey(t, k)
}

// moveEntries makes the entries of a row those of fresh.
func (tx *tx) moveEntries(c *change, fresh []storage.Entry) error {
	same := func(a storage.Entry) func(storage.Entry) bool {
		return func(b storage.Entry) bool {
			return a.Index == b.Index && string(a.P) == string(b.P) && string(a.S) == string(b.S)
		}
	}
	k := c.w.Key
	for _, e := range c.old {
		if slices.ContainsFunc(fresh, same(e)) {
			continue
		}
		if err := tx.run(sqlRemove, int64(e.Index), e.P, e.S, k.PK, k.SK); err != nil {
			return err
		}
		if tx.w.s.c.changes() != 1 {
			return &damage{"a row has no entry in its index"}
		}
	}
	for _, e := range fresh {
		var err error
		if i := slices.IndexFunc(c.old, same(e)); i < 0 {
			err = tx.run(sqlEnter, int64(e.Index), e.P, e.S, k.PK, k.SK, c.id, int64(e.Size))
		} else if c.old[i].Size != e.Size {
			err = tx.run(sqlResize, int64(e.Size), int64(e.Index), e.P, e.S, k.PK, k.SK)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
