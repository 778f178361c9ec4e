// SPDX-License-Identifier: Apache-2.0

//go:build full && linux

package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/extenddb/extenddb/test/need"
	"github.com/extenddb/extenddb/test/proc"
)

// TestFullDisk fills a small file system: writes must fail with a server error
// and nothing else may happen; when space returns, so do writes.
func TestFullDisk(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	bin := proc.Binary(t, dir)
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "extenddb-test", disk).CombinedOutput(); err != nil {
		need.Missing(t, "mount", fmt.Sprintf("cannot mount a tmpfs: %s", out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	srv := proc.Start(t, bin, filepath.Join(disk, "data.db"))
	db := srv.Client()
	create(t, db)

	acked := fill(t, db, 0)
	if len(acked) == 0 {
		t.Fatal("not one write succeeded")
	}
	verify(t, db, acked)
	srv.Kill()
	srv = proc.Start(t, bin, filepath.Join(disk, "data.db"))
	db = srv.Client()
	verify(t, db, acked)

	if out, err := exec.Command("mount", "-o", "remount,size=96m", disk).CombinedOutput(); err != nil {
		t.Fatalf("remount: %s", out)
	}
	for i := range 50 {
		if err := put(t, db, 1000, i); err != nil {
			t.Fatalf("a write with space again: %v", err)
		}
		acked = append(acked, [2]int{1000, i})
	}
	verify(t, db, acked)
	if err := srv.Stop(); err != nil {
		t.Errorf("the server did not stop cleanly: %v\n%s", err, srv.Logs())
	}
	checkFile(t, filepath.Join(disk, "data.db"))
	t.Logf("%d acknowledged writes, none missing", len(acked))
}

func put(t *testing.T, db *dynamodb.Client, client, i int) error {
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes{
		"client": n(client), "id": s(fmt.Sprint(i)), "n": n(i), "group": s(fmt.Sprint(i % 7)), "pad": s(strings.Repeat("x", 10_000)),
	}})
	return err
}

// fill writes from 16 clients until each was refused 20 times.
func fill(t *testing.T, db *dynamodb.Client, from int) (acked [][2]int) {
	var mu sync.Mutex
	var writers sync.WaitGroup
	for c := from; c < from+16; c++ {
		writers.Go(func() {
			refused := 0
			for i := 0; refused < 20; i++ {
				err := put(t, db, c, i)
				var api smithy.APIError
				switch {
				case err == nil:
					mu.Lock()
					acked = append(acked, [2]int{c, i})
					mu.Unlock()
				case errors.As(err, &api) && api.ErrorCode() == "ServiceUnavailable": // which SDKs repeat
					refused++
				default:
					t.Errorf("a full disk answers %v", err)
					return
				}
			}
		})
	}
	writers.Wait()
	return acked
}

func verify(t *testing.T, db *dynamodb.Client, acked [][2]int) {
	t.Helper()
	found := items(t, db, "")
	for _, a := range acked {
		if got, ok := found[a[0]][fmt.Sprint(a[1])]; !ok || got != a[1] {
			t.Fatalf("the acknowledged write %v is missing", a)
		}
	}
}
