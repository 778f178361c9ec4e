// SPDX-License-Identifier: Apache-2.0

package movies

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/extenddb/extenddb/server/storage"
	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/proc"
	"github.com/extenddb/extenddb/test/stored"
)

func TestMain(m *testing.M) { proc.Main(m) }

const (
	writers   = 4
	slots     = 50   // items of one writer
	firstYear = 3000 // of the writers' items; no movie is that late
)

// act is the n-th change a writer makes: a slot is put, now and then deleted.
func act(n int) (slot int, deletes bool) { return n * 7 % slots, n%11 == 5 }

// change makes the n-th change of a writer.
func change(ctx context.Context, db *dynamodb.Client, writer, n int) error {
	slot, deletes := act(n)
	key := attributes{
		"year":  &types.AttributeValueMemberN{Value: strconv.Itoa(firstYear + writer)},
		"title": &types.AttributeValueMemberS{Value: fmt.Sprintf("slot %02d", slot)},
	}
	if deletes {
		_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: key})
		return err
	}
	key["rank"] = &types.AttributeValueMemberN{Value: strconv.Itoa(n)}
	key["rating"] = &types.AttributeValueMemberN{Value: "11"}
	_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: key})
	return err
}

// after is what a writer's slots hold after so many changes.
func after(changes int) map[string]string {
	state := map[string]string{}
	for n := range changes {
		slot, deletes := act(n)
		title := fmt.Sprintf("slot %02d", slot)
		if delete(state, title); !deletes {
			state[title] = strconv.Itoa(n)
		}
	}
	return state
}

// write changes items with four writers until stop is called, which returns how
// many changes each has made. begun is closed when each has made some.
func write(t *testing.T, db *dynamodb.Client) (begun chan struct{}, stop func() []int) {
	begun = make(chan struct{})
	var early atomic.Int32
	var done atomic.Bool
	var all sync.WaitGroup
	counts := make([]int, writers)
	for w := range writers {
		all.Go(func() {
			for n := 0; !done.Load(); n++ {
				if err := change(t.Context(), db, w, n); err != nil {
					t.Errorf("writer %d: %v", w, err)
					break
				}
				counts[w] = n + 1
				if n == 2*slots && early.Add(1) == writers {
					close(begun)
				}
			}
		})
	}
	return begun, func() []int {
		done.Store(true)
		all.Wait()
		return counts
	}
}

// extenddb runs a command and decodes its result.
func extenddb(t *testing.T, bin string, result any, args ...string) {
	t.Helper()
	cmd := exec.Command(bin, append(args, "--output", "json")...)
	cmd.Dir = t.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("extenddb %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("extenddb %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

type created struct {
	Backups []struct {
		ARN, ID, Account, Table string
		Items                   int64
	}
}

// TestLiveBackup: a second process backs the table up while writers change
// items of it; what is restored is the table as it was at one instant.
func TestLiveBackup(t *testing.T) {
	t.Parallel()
	bin := proc.Binary(t, t.TempDir())
	movies, items := read(t)
	proc.EachEngine(t, func(t *testing.T, e proc.Engine) { liveBackup(t, bin, e, movies, items) })
}

func liveBackup(t *testing.T, bin string, e proc.Engine, movies []movie, items []attributes) {
	database, store := e.Database(t), filepath.Join(t.TempDir(), "store")
	source := proc.Start(t, bin, database)
	db := source.Client()
	create(t, db)
	load(t, db, items)
	url := "file://" + store
	var ignored any
	extenddb(t, bin, &ignored, "store", "init", url)

	begun, stop := write(t, db)
	<-begun
	var made created
	extenddb(t, bin, &made, "backup", "create", table, "--name", "live", "--store", url, "--storage", database)
	counts := stop()
	if len(made.Backups) != 1 || made.Backups[0].Table != table {
		t.Fatalf("backup create answered %+v", made)
	}
	b := made.Backups[0]
	oneInstant(t, filepath.Join(store, b.Account, b.Table, b.ID), items, counts)

	// Beside the table it comes from, in the database that is served.
	extenddb(t, bin, &ignored, "restore", b.ARN, "--as", "copy", "--store", url, "--storage", database)
	if err := source.Stop(); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, database, b.Items)

	// On another machine, where it answers as the source did.
	other := e.Database(t)
	target := proc.Start(t, bin, other)
	extenddb(t, bin, &ignored, "restore", "live", "--as", table, "--store", url, "--storage", other)
	db = target.Client()
	forget(t, db)
	testReads(t, db, movies, items)
}

// oneInstant reads the backup with the independent reader: all movies, and of
// each writer the state after some number of its changes.
func oneInstant(t *testing.T, backup string, items []attributes, counts []int) {
	t.Helper()
	list := filepath.Join(t.TempDir(), "items")
	out, err := exec.Command(need.Tool(t, "python3"), "../reader/read_backup.py", backup, "--items", list).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, it := range items {
		want[text(it["year"])+"/"+text(it["title"])] = text(it["rank"])
	}
	states := make([]map[string]string, writers)
	for w := range states {
		states[w] = map[string]string{}
	}
	found := 0
	for line := range strings.Lines(string(data)) {
		var it map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &it); err != nil {
			t.Fatal(err)
		}
		value := func(name string) string {
			v, err := decode(it[name])
			if err != nil {
				t.Fatal(err)
			}
			return text(v)
		}
		year, title := value("year"), value("title")
		if y, _ := strconv.Atoi(year); y >= firstYear {
			states[y-firstYear][title] = value("rank")
			continue
		}
		if want[year+"/"+title] != value("rank") {
			t.Errorf("movie %s/%s is not in the file, or is another", year, title)
		}
		found++
	}
	if found != len(items) {
		t.Errorf("the backup holds %d movies, want %d", found, len(items))
	}
	for w, state := range states {
		if !isState(state, counts[w]) {
			t.Errorf("the items of writer %d are those of no instant in its %d changes: %v", w, counts[w], state)
		}
	}
}

// isState reports whether the state is one that a writer passed through.
func isState(state map[string]string, changes int) bool {
	last := 0
	for _, n := range state {
		v, _ := strconv.Atoi(n)
		last = max(last, v)
	}
	for k := last + 1; k <= min(last+slots, changes); k++ { // deletions may follow the last put
		if fmt.Sprint(after(k)) == fmt.Sprint(state) {
			return true
		}
	}
	return false
}

// sameBytes compares the movies of the restored table with those of the source,
// as they are stored, and its index entries with its rows.
func sameBytes(t *testing.T, database string, total int64) {
	t.Helper()
	var want, got map[string]string
	stored.With(t, database, func(db storage.Engine) {
		want, got = stored.Items(t, db, table), stored.Items(t, db, "copy")
		stored.Check(t, db)
	})
	if int64(len(got)) != total {
		t.Errorf("%d items were restored, the backup has %d", len(got), total)
	}
	movies := 0
	for k, item := range want {
		if strings.Contains(item, `"info"`) {
			movies++
			if got[k] != item {
				t.Errorf("restored item differs: %s instead of %s", got[k], item)
			}
		}
	}
	if movies != 4609 {
		t.Errorf("%d movies are in the source", movies)
	}
}

// forget deletes the writers' items, so that only movies are left.
func forget(t *testing.T, db *dynamodb.Client) {
	t.Helper()
	for w := range writers {
		for slot := range slots {
			_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: attributes{
				"year":  &types.AttributeValueMemberN{Value: strconv.Itoa(firstYear + w)},
				"title": &types.AttributeValueMemberS{Value: fmt.Sprintf("slot %02d", slot)},
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
