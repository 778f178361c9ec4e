// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/format"
)

// latest:TABLE passes over what is newer and cannot be used, and says so; what
// is older and broken does not matter to it.
func TestLatestPassesOver(t *testing.T) {
	t.Parallel()
	damage := func(m *format.Manifest) { m.SizeBytes++ }
	newer := func(m *format.Manifest) { m.FormatVersion = 2 }
	r := newRig(t)
	table := ""
	put := func(id string, change func(*format.Manifest)) {
		h := newHandmade(lineA)
		h.m.BackupARN = fmt.Sprintf("%s/backup/%s", h.m.Table.ARN, id)
		table = h.store(r, change).Table
	}
	find := func() (Named, error) { return Find(t.Context(), r.env, "latest:"+table) }
	put("1-a", damage)
	_, err := find()
	wantError(t, err, NotFound, "in the store can be used", "/1-a/extenddb-manifest.json: invalid backup manifest")
	put("2-b", nil)
	n, err := find()
	if err != nil || n.Ref.ID != "2-b" || len(n.Passed) != 0 {
		t.Errorf("%+v, %v", n, err)
	}
	put("3-c", newer)
	put("4-d", damage)
	n, err = find()
	if err != nil || n.Ref.ID != "2-b" || len(n.Passed) != 2 || !n.Passed[0].Newer || n.Passed[1].Newer ||
		!strings.Contains(n.Passed[1].Object, "/4-d/") {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := Resolve(t.Context(), r.env, "latest:"+table); err != nil || strings.Count(r.log.String(), "backup cannot be used") != 2 {
		t.Errorf("%v, log %s", err, r.log)
	}
	if n, err := Find(t.Context(), r.env, "2-b"); err != nil || n.Passed != nil {
		t.Errorf("%+v, %v", n, err)
	}

	r = newRig(t)
	put("3-c", newer)
	_, err = find()
	wantError(t, err, NotFound, "unsupported backup format version 2")
	if e := Classify(t.Context(), err); e.Hint != hintNewer {
		t.Errorf("the hint is %q", e.Hint)
	}
}
