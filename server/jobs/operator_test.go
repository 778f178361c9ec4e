// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/backupstore/storetest"
	"github.com/extenddb/extenddb/format/ddb"
	"github.com/extenddb/extenddb/server/backup"
	"github.com/extenddb/extenddb/server/clock"
	"github.com/extenddb/extenddb/server/progress"
	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/server/storage/storagetest"
)

const account = "000000000000"

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// desk is an operator under test, and all it works with.
type desk struct {
	t     *testing.T
	clock *clock.Fake
	stub  *storagetest.Stub
	store *storetest.Memory
	board *progress.Board
	op    *Operator
	woken chan struct{}
	log   *bytes.Buffer

	mu     sync.Mutex
	events []progress.Event
	seen   chan progress.Event // of State Waiting
	closed int                 // times a store was
}

func newDesk(t *testing.T, tables ...string) *desk {
	t.Helper()
	c := clock.NewFake(epoch)
	d := &desk{
		t: t, clock: c, stub: &storagetest.Stub{Engine: storagetest.NewMemory(300)}, store: storetest.NewMemory(),
		board: progress.NewBoard(c, time.Minute), woken: make(chan struct{}, 10), log: &bytes.Buffer{},
		seen: make(chan progress.Event, 1000),
	}
	var logging sync.Mutex
	d.op = NewOperator(OperatorOptions{
		Storage: d.stub, Clock: c, Log: slog.New(slog.NewTextHandler(locked{&logging, d.log}, nil)),
		OpenStore: func(_ context.Context, url string) (backupstore.Store, error) {
			if url != "mem:" {
				return nil, &backupstore.UnusableError{Text: "no store at " + url}
			}
			return closing{d.store, d}, nil
		},
		Region: "us-east-1", Account: account, Backend: "memory", Version: "1", Board: d.board,
		Wake: func() { d.woken <- struct{}{} },
	})
	for i, name := range tables {
		d.table(name, i+1)
	}
	return d
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// closing is a store that is to be closed.
type closing struct {
	backupstore.Store
	d *desk
}

func (c closing) Close() error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.closed++
	return errors.New("close does not work")
}

func definition(name string) ddb.TableDefinition {
	return ddb.TableDefinition{
		TableName: name, BillingMode: ddb.PayPerRequest,
		KeySchema:            []ddb.KeySchemaElement{{AttributeName: "id", KeyType: ddb.Hash}},
		AttributeDefinitions: []ddb.AttributeDefinition{{AttributeName: "id", AttributeType: "S"}},
	}
}

// table makes a table of n items.
func (d *desk) table(name string, n int) {
	d.t.Helper()
	t, err := d.stub.CreateTable(d.t.Context(), account, definition(name), epoch)
	if err != nil {
		d.t.Fatal(err)
	}
	for i := range n {
		it, err := ddb.ParseItem(fmt.Appendf(nil, `{"id":{"S":"item %d"}}`, i))
		if err != nil {
			d.t.Fatal(err)
		}
		key, err := t.KeyOf(it)
		if err != nil {
			d.t.Fatal(err)
		}
		r, err := d.stub.Write(d.t.Context(), storage.Write{Table: t, Key: key, Decide: func(t *storage.Table, _ *storage.Row) (*storage.Next, error) {
			return storage.Derive(t, it)
		}})
		if err = errors.Join(err, r.Err); err != nil {
			d.t.Fatal(err)
		}
	}
}

// drop makes a table DELETING.
func (d *desk) drop(name string) {
	d.t.Helper()
	if _, err := d.stub.DropTable(d.t.Context(), account, name, func(*storage.Table) error { return nil }); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) report(e progress.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, e)
	if e.State == progress.Waiting {
		d.seen <- e
	}
}

// course is the states a table's job went through, without repetitions.
func (d *desk) course(table string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var states []string
	for _, e := range d.events {
		if s := string(e.State); e.Table == table && (len(states) == 0 || states[len(states)-1] != s) {
			states = append(states, s)
		}
	}
	return strings.Join(states, " ")
}

func (d *desk) run(ctx context.Context, kind string, params any) (any, error) {
	d.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.op.Run(ctx, kind, raw, d.report)
}

func (d *desk) backup(ctx context.Context, tables ...string) (*BackupResult, error) {
	d.t.Helper()
	r, err := d.run(ctx, KindBackup, BackupParams{Store: "mem:", Tables: tables, All: len(tables) == 0})
	if r == nil {
		return nil, err
	}
	return r.(*BackupResult), err
}

func (d *desk) mustBackup(tables ...string) *BackupResult {
	d.t.Helper()
	r, err := d.backup(d.t.Context(), tables...)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// names are the tables of a result: "backed up | failed".
func (r *BackupResult) names() string {
	if r == nil {
		return "none"
	}
	var done, failed []string
	for _, b := range r.Backups {
		done = append(done, b.Table)
	}
	for _, f := range r.Failed {
		failed = append(failed, fmt.Sprintf("%s %s", f.Table, f.Code))
	}
	return strings.Join(done, " ") + " | " + strings.Join(failed, ", ")
}

// objects counts those in the store.
func (d *desk) objects() (n int) {
	for _, err := range d.store.List(context.Background(), "") {
		if err != nil {
			d.t.Fatal(err)
		}
		n++
	}
	return n
}

func wantFault(t *testing.T, err error, code backup.Code, texts ...string) {
	t.Helper()
	var e *backup.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("the error is %v, want one of code %s", err, code)
		return
	}
	for _, text := range texts {
		if !strings.Contains(e.Error()+"\n"+e.Hint, text) {
			t.Errorf("the error is %q with hint %q, want %q in it", e, e.Hint, text)
		}
	}
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.table("songs", 250)
	r := d.mustBackup("songs")
	b := r.Backups[0]
	if len(r.Backups) != 1 || b.Table != "songs" || b.Items != 250 || !strings.HasPrefix(b.ARN, "arn:aws:dynamodb:us-east-1:000000000000:table/songs/backup/") {
		t.Errorf("the result is %+v", r)
	}
	if got := d.course("songs"); got != "running done" {
		t.Errorf("the job was %s", got)
	}
	res, err := d.run(t.Context(), KindRestore, RestoreParams{Store: "mem:", Backup: b.ARN, As: "copy"})
	if got, ok := res.(*backup.RestoreResult); err != nil || !ok || got.Items != 250 || got.Table != "copy" {
		t.Fatalf("restored %+v, %v", res, err)
	}
	if table, stats, err := d.stub.Describe(t.Context(), account, "copy"); err != nil || table.Status != storage.Active || stats.Items != 250 {
		t.Errorf("the table is %+v with %+v, %v", table, stats, err)
	}
	jobs := d.board.Jobs()
	slices.SortFunc(jobs, func(a, b progress.Event) int { return strings.Compare(a.Job, b.Job) })
	if len(jobs) != 2 || jobs[0].Job != "backup-1" || jobs[1].Job != "restore-2" || jobs[1].Table != "copy" || jobs[1].Backup != b.ARN {
		t.Errorf("the board shows %+v", jobs)
	}
	for _, e := range jobs {
		if e.State != progress.Done || e.Total == nil || e.Done != *e.Total || !e.Started.Equal(epoch) {
			t.Errorf("the job ended as %+v", e)
		}
	}
	if d.closed != 2 || strings.Count(d.log.String(), "closing the backup store failed") != 2 {
		t.Errorf("the store was closed %d times; log: %s", d.closed, d.log)
	}
	if log := d.log.String(); strings.Count(log, "backup=arn:") != strings.Count(log, "backup=") {
		t.Errorf("a backup is not named by its ARN: %s", log)
	}
	for _, line := range []string{"backup started", "backup finished", "restore started", "restore finished"} {
		if strings.Count(d.log.String(), line) != 1 {
			t.Errorf("not one line %q in the log: %s", line, d.log)
		}
	}
	if len(d.woken) != 0 {
		t.Error("the runner was woken for nothing")
	}
}

func TestBackupAll(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "actors", "old")
	for i := range 2 * tablesPage {
		d.table(fmt.Sprintf("many-%03d", i), 0)
	}
	d.drop("old")
	if _, err := d.stub.Load(t.Context(), account, definition("half"), epoch); err != nil {
		t.Fatal(err)
	}
	gone := "many-007" // between the listing and its turn
	d.stub.OnDescribe = func(ctx context.Context, account, name string) (*storage.Table, storage.Stats, error) {
		if name == gone {
			return nil, storage.Stats{}, storage.ErrTableNotFound
		}
		return d.stub.Engine.Describe(ctx, account, name)
	}
	r := d.mustBackup()
	var names []string
	for _, b := range r.Backups {
		names = append(names, b.Table)
	}
	if len(names) != 2+2*tablesPage-1 || !slices.IsSorted(names) || slices.Contains(names, "half") || slices.Contains(names, "old") || slices.Contains(names, gone) {
		t.Errorf("backed up %d: %s", len(names), names)
	}
	if d.closed != 1 {
		t.Errorf("the store was opened and closed %d times", d.closed)
	}
}

// TestSeconds: results tell how long the work took.
func TestSeconds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
		d.clock.Advance(1500 * time.Millisecond)
		return d.stub.Engine.Snapshot(ctx, account, table)
	}
	d.stub.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
		d.clock.Advance(2 * time.Second)
		return d.stub.Engine.Load(ctx, account, def, at)
	}
	r := d.mustBackup("films")
	res, err := d.run(t.Context(), KindRestore, RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"})
	if err != nil {
		t.Fatal(err)
	}
	b, got := r.Backups[0], res.(*backup.RestoreResult)
	if r.Seconds != 1.5 || got.Seconds != 2 || got.Name != b.Name || got.BackupID != b.ID || got.PassedOver == nil {
		t.Errorf("%v s for the backup, and %+v", r.Seconds, got)
	}
}

func TestBackupAllOfNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "old")
	d.drop("old")
	if text, err := json.Marshal(d.mustBackup()); string(text) != `{"backups":[],"failed":[],"seconds":0}` || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
}

// sweeping is a store that may hold what dead processes left.
type sweeping struct {
	backupstore.Store
	left  int
	err   error
	until time.Time
}

func (s *sweeping) Sweep(_ context.Context, olderThan time.Time) (int, error) {
	s.until = olderThan
	return s.left, s.err
}

// A backup removes what others left in the store a day ago; that it cannot is
// no failure.
func TestBackupSweepsTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store sweeping
		log   string
	}{
		{sweeping{left: 3}, "removed stale files"}, {sweeping{err: errors.New("no right")}, "no right"},
	} {
		d := newDesk(t, "films")
		c.store.Store = d.store
		d.op.o.OpenStore = func(context.Context, string) (backupstore.Store, error) { return &c.store, nil }
		d.mustBackup("films")
		if want := epoch.Add(-24 * time.Hour); !c.store.until.Equal(want) || !strings.Contains(d.log.String(), c.log) {
			t.Errorf("swept what is older than %v, want %v; log:\n%s", c.store.until, want, d.log)
		}
	}
}

func TestTablesAreCheckedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "old")
	d.drop("old")
	if _, err := d.stub.Load(t.Context(), account, definition("half"), epoch); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tables []string
		code   backup.Code
		text   string
	}{
		{[]string{"films", "film"}, backup.NotFound, `table "film" does not exist`},
		{[]string{"films", "film", "old"}, backup.NotFound, `tables "film", "old" do not exist`},
		{[]string{"films", "half"}, backup.Busy, `table "half" is CREATING`},
	} {
		r, err := d.backup(t.Context(), c.tables...)
		if wantFault(t, err, c.code, c.text); r != nil {
			t.Errorf("%s: there is a result", c.tables)
		}
	}
	if d.objects() != 0 || len(d.events) != 0 {
		t.Errorf("there are %d objects and events %v", d.objects(), d.events)
	}
}

// failSnapshots lets the snapshots of some tables fail.
func (d *desk) failSnapshots(with error, tables ...string) {
	d.stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
		if slices.Contains(tables, table) {
			return nil, with
		}
		return d.stub.Engine.Snapshot(ctx, account, table)
	}
}

func TestSomeFail(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "actors", "songs")
	d.failSnapshots(storage.ErrUnsupported, "actors")
	r, err := d.backup(t.Context(), "films", "actors", "songs")
	wantFault(t, err, backup.Incomplete, `1 of 3 backups failed; the first: table "actors": `, "not supported", "this storage engine cannot do it")
	if r.names() != "films songs | actors refused" || r.Failed[0].Hint == "" || r.Failed[0].Error == "" {
		t.Errorf("the result is %+v", r)
	}
	if a, s := d.course("actors"), d.course("songs"); a != "running failed" || s != "running done" {
		t.Errorf("the jobs were %s and %s", a, s)
	}
	if n := strings.Count(d.log.String(), `level=WARN msg="backup failed"`); n != 1 || strings.Contains(d.log.String(), "level=ERROR") {
		t.Errorf("%d refusals in the log: %s", n, d.log)
	}

	d.failSnapshots(storage.ErrUnsupported, "films", "actors")
	r, err = d.backup(t.Context(), "films", "actors")
	wantFault(t, err, backup.Refused, `all 2 backups failed; the first: table "films": `)
	if r.names() != " | films refused, actors refused" {
		t.Errorf("the result is %+v", r)
	}

	r, err = d.backup(t.Context(), "films")
	if wantFault(t, err, backup.Refused, "not supported"); r != nil || strings.Contains(err.Error(), "backups failed") {
		t.Errorf("the result is %+v, %v", r, err)
	}
}

func TestCatalogFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	for name, c := range map[string]struct {
		prepare func(d *desk)
		tables  []string
		text    string
	}{
		"list": {func(d *desk) {
			d.stub.OnTables = func(context.Context, string, string, int) ([]string, bool, error) { return nil, false, broken }
		}, nil, "list tables"},
		"one": {func(d *desk) {
			d.stub.OnTable = func(context.Context, string, string) (*storage.Table, error) { return nil, broken }
		}, []string{"films"}, `look for table "films"`},
		"each": {func(d *desk) {
			d.stub.OnTable = func(context.Context, string, string) (*storage.Table, error) { return nil, broken }
		}, nil, `look for table "films"`},
		"describe": {func(d *desk) {
			d.stub.OnDescribe = func(context.Context, string, string) (*storage.Table, storage.Stats, error) {
				return nil, storage.Stats{}, broken
			}
		}, []string{"films"}, `look for table "films"`},
	} {
		d := newDesk(t, "films")
		c.prepare(d)
		_, err := d.backup(t.Context(), c.tables...)
		if wantFault(t, err, backup.Failed, c.text, "disk on fire"); d.objects() != 0 {
			t.Errorf("%s: something was written", name)
		}
	}
}

func TestDroppedWhileListing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.stub.OnTable = func(context.Context, string, string) (*storage.Table, error) { return nil, storage.ErrTableNotFound }
	if r := d.mustBackup(); r.names() != " | " {
		t.Errorf("the result is %s", r.names())
	}
}

// hold lets the snapshots of a table wait until leave is closed.
func (d *desk) hold(table string) (entered, leave chan struct{}) {
	entered, leave = make(chan struct{}, 10), make(chan struct{})
	d.stub.OnSnapshot = func(ctx context.Context, account, name string) (storage.Snapshot, error) {
		if name == table {
			entered <- struct{}{}
			select {
			case <-leave:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return d.stub.Engine.Snapshot(ctx, account, name)
	}
	return entered, leave
}

// outcome is what a job in another goroutine came to.
type outcome struct {
	result any
	err    error
}

func (d *desk) start(ctx context.Context, kind string, params any) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		r, err := d.run(ctx, kind, params)
		c <- outcome{r, err}
	}()
	return c
}

func TestJobsWaitForASlot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "songs")
	entered, leave := d.hold("films")
	films := BackupParams{Store: "mem:", Tables: []string{"films"}}
	var busy []<-chan outcome
	for range defaultMaxJobs {
		busy = append(busy, d.start(t.Context(), KindBackup, films))
		<-entered
	}
	ctx, cancel := context.WithCancel(t.Context())
	impatient := d.start(ctx, KindBackup, BackupParams{Store: "mem:", Tables: []string{"songs"}})
	if e := <-d.seen; e.WaitingFor != "a job slot (2 of 2 used)" || e.Table != "songs" || e.Job == "" {
		t.Errorf("the event is %+v", e)
	}
	if e := d.board.Jobs()[2]; e.State != progress.Waiting {
		t.Errorf("the board shows %+v", e)
	}
	cancel()
	wantFault(t, (<-impatient).err, backup.Interrupted, "wait for a job slot")
	if got := d.course("songs"); got != "waiting cancelled" {
		t.Errorf("the job was %s", got)
	}
	if log := d.log.String(); !strings.Contains(log, `level=INFO msg="backup cancelled"`) || !strings.Contains(log, `reason="stopped as asked"`) ||
		strings.Contains(log, "job not started") || strings.Contains(log, "level=ERROR") || strings.Contains(log, "context canceled") {
		t.Errorf("log: %s", log)
	}
	patient := d.start(t.Context(), KindRestore, RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"})
	if e := <-d.seen; e.WaitingFor != "a job slot (2 of 2 used)" || e.Table != "copy" {
		t.Errorf("the event is %+v", e)
	}
	close(leave)
	for _, c := range busy {
		if o := <-c; o.err != nil {
			t.Error(o.err)
		}
	}
	if o := <-patient; o.err != nil {
		t.Error(o.err)
	}
	if got := d.course("copy"); got != "waiting running done" {
		t.Errorf("the job was %s", got)
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	for range defaultMaxJobs {
		d.op.slots <- struct{}{}
	}
	d.op.queued = maxQueue
	_, err := d.backup(t.Context(), "films")
	wantFault(t, err, backup.Busy, "100 jobs are waiting already")
	if got := d.course("films"); got != "failed" || !strings.Contains(d.log.String(), "job not started") {
		t.Errorf("the job was %s; log: %s", got, d.log)
	}
	<-d.op.slots
	d.mustBackup("films") // with a free slot nobody has to queue
}

func TestCancelledBeforeItBegan(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.backup(ctx, "films")
	wantFault(t, err, backup.Interrupted)
	if d.objects() != 0 {
		t.Error("something was written")
	}
}

func TestBackupWaitsForASnapshot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	refusals := 3
	d.stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
		if refusals--; refusals >= 0 {
			return nil, fmt.Errorf("snapshot: %w", storage.ErrTooManySnapshots)
		}
		return d.stub.Engine.Snapshot(ctx, account, table)
	}
	job := d.start(t.Context(), KindBackup, BackupParams{Store: "mem:", Tables: []string{"films"}})
	if e := <-d.seen; e.WaitingFor != "a table snapshot (all are in use)" || e.Phase != "snapshot" {
		t.Errorf("the event is %+v", e)
	}
	for range 3 {
		d.clock.WaitTimers(2)
		d.clock.Advance(snapshotRetry)
	}
	if o := <-job; o.err != nil {
		t.Error(o.err)
	}
	if got := d.course("films"); got != "running waiting running done" {
		t.Errorf("the job was %s", got)
	}
}

func TestBackupWaitsNotForEver(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "songs")
	d.failSnapshots(storage.ErrTooManySnapshots, "films")
	params := BackupParams{Store: "mem:", Tables: []string{"films"}}
	job := d.start(t.Context(), KindBackup, params)
	<-d.seen
	d.clock.WaitTimers(2)
	d.clock.Advance(snapshotWindow - 1)
	d.clock.WaitTimers(2)
	d.clock.Advance(1)
	wantFault(t, (<-job).err, backup.Busy, "too many table snapshots are open: backups or table snapshots hold all slots", "try again")
	if d.objects() != 0 || strings.Count(d.log.String(), `level=WARN msg="backup failed"`) != 1 {
		t.Errorf("%d objects; log: %s", d.objects(), d.log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	job = d.start(ctx, KindBackup, params)
	<-d.seen
	cancel()
	wantFault(t, (<-job).err, backup.Interrupted)
	d.failSnapshots(storage.ErrTooManySnapshots)
	d.mustBackup("films") // the slots are free
}

func TestCancelledBetweenTables(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "songs", "zebra")
	entered, _ := d.hold("songs")
	ctx, cancel := context.WithCancel(t.Context())
	job := d.start(ctx, KindBackup, BackupParams{Store: "mem:", All: true})
	<-entered
	cancel()
	o := <-job
	wantFault(t, o.err, backup.Interrupted, "interrupted: 1 of 3 tables were backed up")
	if r, ok := o.result.(*BackupResult); !ok || r.names() != "films | songs interrupted" {
		t.Errorf("the result is %+v", o.result)
	}
	if r, ok := o.result.(*BackupResult); ok && strings.Contains(r.Failed[0].Error, "context") {
		t.Errorf("the failure is %+v", r.Failed[0])
	}
	for _, e := range d.events {
		if e.Error != "" {
			t.Errorf("the event is %+v", e)
		}
	}
	if s, z := d.course("songs"), d.course("zebra"); s != "running cancelled" || z != "" {
		t.Errorf("the jobs were %q and %q", s, z)
	}
}

func TestTwoRestoresIntoOneName(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.mustBackup("films")
	entered, leave := make(chan struct{}), make(chan struct{})
	d.stub.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
		close(entered)
		<-leave
		return d.stub.Engine.Load(ctx, account, def, at)
	}
	params := RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"}
	first := d.start(t.Context(), KindRestore, params)
	<-entered
	_, err := d.run(t.Context(), KindRestore, params)
	wantFault(t, err, backup.Refused, `table "copy" is being restored already`, "--as")
	dry := params
	dry.DryRun = true
	if _, err := d.run(t.Context(), KindRestore, dry); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	close(leave)
	if o := <-first; o.err != nil {
		t.Error(o.err)
	}
	_, err = d.run(t.Context(), KindRestore, params)
	wantFault(t, err, backup.Refused, `table "copy" exists`)
}

// TestRestoresAreTold of when they begin to work and when they end, however.
func TestRestoresAreTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	var told []string
	d.op.o.Restoring = func() (done func()) {
		told = append(told, "begins")
		return func() { told = append(told, "ends") }
	}
	d.mustBackup("films")
	if len(told) > 0 {
		t.Errorf("a backup: %v", told)
	}
	for _, load := range []func() (storage.Loading, error){
		nil,
		func() (storage.Loading, error) { return nil, storage.ErrUnavailable },
		func() (storage.Loading, error) { panic("load") },
	} {
		told = nil
		if d.stub.OnLoad = nil; load != nil {
			d.stub.OnLoad = func(context.Context, string, ddb.TableDefinition, time.Time) (storage.Loading, error) { return load() }
		}
		_, err := d.run(t.Context(), KindRestore, RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy-" + fmt.Sprint(load == nil)})
		if (err == nil) != (load == nil) || !slices.Equal(told, []string{"begins", "ends"}) {
			t.Errorf("%v, %v", told, err)
		}
	}
}

func TestRestoreFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.mustBackup("films")
	d.stub.OnLoad = func(ctx context.Context, account string, def ddb.TableDefinition, at time.Time) (storage.Loading, error) {
		l, err := d.stub.Engine.Load(ctx, account, def, at)
		return &storagetest.StubLoading{Loading: l, OnAdd: func(context.Context, []storage.LoadRow) error { return storage.ErrUnavailable }}, err
	}
	params := RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"}
	_, err := d.run(t.Context(), KindRestore, params)
	wantFault(t, err, backup.Failed, "storage is unavailable")
	<-d.woken
	if table, err := d.stub.Table(t.Context(), account, "copy"); err != nil || table.Status != storage.Deleting {
		t.Errorf("the target is %+v, %v", table, err)
	}
	_, err = d.run(t.Context(), KindRestore, params)
	wantFault(t, err, backup.Busy, `table "copy" exists: it is DELETING`)

	if err := SweepAbandoned(t.Context(), d.stub, d.clock, d.op.o.Log); err != nil {
		t.Error(err)
	}
	if _, err := d.stub.Table(t.Context(), account, "copy"); !errors.Is(err, storage.ErrTableNotFound) {
		t.Errorf("after the sweep: %v", err)
	}
	d.stub.OnLoad = nil
	if _, err := d.run(t.Context(), KindRestore, params); err != nil {
		t.Error(err)
	}
}

func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	d.mustBackup("films")
	for _, c := range []struct {
		p    RestoreParams
		code backup.Code
		text string
	}{
		{RestoreParams{Store: "mem:", Backup: "nothing", As: "copy"}, backup.NotFound, "nothing"},
		{RestoreParams{Store: "mem:", Backup: "latest:films", As: "films"}, backup.Refused, `table "films" exists`},
		{RestoreParams{Store: "mem:", Backup: "latest:films", As: "films", DryRun: true}, backup.Refused, `table "films" exists`},
		{RestoreParams{Store: "mem:", Backup: "latest:films", As: "no name"}, backup.Invalid, "no name"},
		{RestoreParams{Store: "file:///gone", Backup: "latest:films", As: "copy"}, backup.NotFound, "open the store: no store at file:///gone"},
	} {
		r, err := d.run(t.Context(), KindRestore, c.p)
		if wantFault(t, err, c.code, c.text); r != nil {
			t.Errorf("%+v: there is a result", c.p)
		}
	}
	for _, e := range d.board.Jobs() {
		if !e.State.Final() {
			t.Errorf("the board still shows %+v", e)
		}
	}
	broken := errors.New("disk on fire")
	d.stub.OnDescribe = func(context.Context, string, string) (*storage.Table, storage.Stats, error) {
		return nil, storage.Stats{}, broken
	}
	_, err := d.run(t.Context(), KindRestore, RestoreParams{Store: "mem:", Backup: "latest:films", As: "copy"})
	wantFault(t, err, backup.Failed, "disk on fire")
}

func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films", "songs")
	d.stub.OnSnapshot = func(ctx context.Context, account, table string) (storage.Snapshot, error) {
		if table == "films" {
			panic("oh no")
		}
		return d.stub.Engine.Snapshot(ctx, account, table)
	}
	for range 2 * defaultMaxJobs { // a slot that was not given back would be missed
		r, err := d.backup(t.Context(), "films", "songs")
		if wantFault(t, err, backup.Incomplete, "internal error: "); r.names() != "songs | films failed" {
			t.Errorf("the result is %+v", r)
		}
	}
	if got := d.course("films"); got != "running failed running failed running failed running failed" {
		t.Errorf("the job was %s", got)
	}
	if !strings.Contains(d.log.String(), "job panicked") {
		t.Errorf("log: %s", d.log)
	}
}

func TestParameters(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "films")
	const b, r = KindBackup, KindRestore
	for _, c := range []struct{ kind, params, text string }{
		{"backup", `{}`, `unknown kind of job "backup"; there are "backup-create" and "restore"`},
		{b, ``, "invalid parameters: there are none"},
		{b, `{"store":"mem:","alll":true}`, `unknown field "alll"`},
		{b, `{"store":"mem:","limits":{"read":{"max":1}}}`, `unknown field "max"`},
		{b, `{"store":7}`, "cannot unmarshal number"},
		{b, `{"store":"mem:","all":true} 1`, "something follows"},
		{b, `null`, `member "store" is missing`},
		{b, `{"all":true}`, `member "store" is missing`},
		{b, `{"store":"mem:"}`, `member "tables" is missing`},
		{b, `{"store":"mem:","tables":["films"],"all":true}`, "either all tables or some by name"},
		{b, `{"store":"mem:","tables":["films","songs","films"]}`, `table "films" is named twice`},
		{b, `{"store":"mem:","all":true,"limits":{"workers":-1}}`, "must not be negative"},
		{b, `{"store":"mem:","all":true,"limits":{"read":{"max_line_bytes":-1}}}`, "must not be negative"},
		{b, `{"store":"mem:","all":true,"limits":{"workers":257}}`, "257 workers are too many"},
		{b, `{"store":"mem:","all":true,"limits":{"target_bytes":1073741825}}`, "data files of 1073741825 bytes are too large"},
		{b, `{"store":"mem:","tables":["films"],"name":"no name"}`, `"no name" is not valid`},
		{r, ``, "invalid parameters: there are none"},
		{r, `{"backup":"x","as":"y"}`, `member "store" is missing`},
		{r, `{"store":"mem:","as":"y"}`, `member "backup" is missing`},
		{r, `{"store":"mem:","backup":"x"}`, `member "as" is missing`},
		{r, `{"store":"mem:","backup":"x","as":"y","limits":{"max_manifest_bytes":-1}}`, "must not be negative"},
	} {
		got, err := d.op.Run(t.Context(), c.kind, json.RawMessage(c.params), nil)
		if wantFault(t, err, backup.Invalid, c.text); got != nil {
			t.Errorf("%s %s: there is a result", c.kind, c.params)
		}
	}
}

// TestWorkers: a request may say; else a server does, which leaves room for
// clients.
func TestWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int{{0, 0, 0}, {3, 0, 3}, {3, 7, 7}, {0, 7, 7}} {
		o := NewOperator(OperatorOptions{Workers: c[0]})
		e := o.env(nil, &ticket{}, backup.Limits{Workers: c[1], TargetBytes: 5})
		if e.Limits != (backup.Limits{Workers: c[2], TargetBytes: 5}) {
			t.Errorf("%v: %+v", c, e.Limits)
		}
	}
}

func TestSweepAbandoned(t *testing.T) {
	t.Parallel()
	drop := func(name string) storage.Work {
		return storage.Work{Kind: storage.TableDrop, Table: 1, Account: account, Name: name}
	}
	f := &fake{t: t, released: make(chan struct{}, 100)}
	f.add(&task{Work: drop("slow"), steps: 3}, &task{Work: storage.Work{Kind: storage.Statistics, Name: "count"}, steps: 1},
		&task{Work: drop("gone"), steps: 1, faults: []error{storage.ErrNoWork}}, &task{Work: drop("owned"), claimErr: storage.ErrClaimed},
		&task{Work: drop("waiting"), steps: 1, faults: []error{&storage.Held{Holder: "a dump"}}},
		&task{Work: drop("bad"), steps: 1, faults: []error{errors.New("disk on fire")}}, &task{Work: drop("mad"), steps: 1, faults: []error{errPanic}},
		&task{Work: drop("last"), steps: 1})
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	err := SweepAbandoned(t.Context(), f, clock.NewFake(epoch), logger)
	for _, text := range []string{`drop table "bad": disk on fire`, `drop table "mad": panic`} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, want %q in it", err, text)
		}
	}
	for _, name := range []string{"gone", "owned", "waiting"} {
		if err != nil && strings.Contains(err.Error(), name) {
			t.Errorf("the error is %v", err)
		}
	}
	if !strings.Contains(log.String(), `msg="job waits" kind=table-drop account=`+account+` table=waiting reason="what it needs is held by a dump"`) {
		t.Errorf("log: %s", log.String())
	}
	if f.claimed != 0 || strings.Count(log.String(), "job finished") != 2 || strings.Contains(f.events(), "count") {
		t.Errorf("%d leases are held; log: %s", f.claimed, log.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	f.add(&task{Work: drop("first"), steps: 9, onStep: cancel}, &task{Work: drop("second"), steps: 1})
	if err := SweepAbandoned(ctx, f, clock.NewFake(epoch), logger); !errors.Is(err, context.Canceled) || strings.Contains(f.events(), "second") {
		t.Errorf("the error is %v", err)
	}
	f.err = errors.New("catalog on fire")
	if err := SweepAbandoned(t.Context(), f, clock.NewFake(epoch), logger); !errors.Is(err, f.err) {
		t.Errorf("the error is %v", err)
	}
}
