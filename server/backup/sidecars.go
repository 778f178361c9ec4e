// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/extenddb/extenddb/backupstore"
	"github.com/extenddb/extenddb/format"
)

// objects compares the objects of the backup with the manifest: every data
// file is there in its size, and nothing else below data/, because whoever
// imports that directory would take it for data.
func (v *verifier) objects(ctx context.Context) error {
	want := make(map[string]int, len(v.m.Files)) // key -> index
	for i := range v.m.Files {
		want[v.m.Files[i].Key] = i
	}
	started, others := false, map[string]bool{}
	for o, err := range v.e.Store.List(ctx, v.ref.Prefix()) {
		if err != nil {
			return fmt.Errorf("list backup %s: %w", v.ref.Prefix(), err)
		}
		object := strings.TrimPrefix(o.Key, v.ref.Prefix()+"/")
		i, ok := want[object]
		switch {
		case ok:
			delete(want, object)
			if o.Size != v.m.Files[i].Bytes {
				v.broken[i] = true
				err = v.found(object, "the object has %d bytes, the manifest says %d", o.Size, v.m.Files[i].Bytes)
			}
		case strings.HasPrefix(object, format.DataDir+"/"):
			err = v.found(object, "the manifest does not name this object")
		case object == format.StartedName && o.Size != 0:
			started, err = true, v.advise(ctx, object, "the object is not empty")
		default:
			started = started || object == format.StartedName
			others[object] = true
		}
		if err != nil {
			return err
		}
	}
	for _, i := range slices.Sorted(maps.Values(want)) {
		v.broken[i] = true
		if err := v.found(v.m.Files[i].Key, "%v", errMissing); err != nil {
			return err
		}
	}
	if !started {
		return nil // another program's, which may write less
	}
	for _, name := range []string{format.FilesName, format.FilesMD5Name, format.SummaryName, format.SummaryMD5Name} {
		if !others[name] {
			if err := v.advise(ctx, name, "%v: DynamoDB would not import the backup", errMissing); err != nil {
				return err
			}
		}
	}
	return nil
}

// sidecars checks the manifests of a DynamoDB export, as far as they are
// there, and reads the annex.
func (v *verifier) sidecars(ctx context.Context) error {
	for _, s := range []struct {
		name, sum string
		check     func([]byte) error
	}{
		{format.FilesName, format.FilesMD5Name, v.exportFiles},
		{format.SummaryName, format.SummaryMD5Name, v.exportSummary},
	} {
		data, err := v.read(ctx, s.name)
		if err != nil {
			return err
		}
		sum, err := v.read(ctx, s.sum)
		if err != nil {
			return err
		}
		if data != nil && sum != nil && string(bytes.TrimSpace(sum)) != format.MD5Text(data) {
			if err := v.found(s.sum, "it says %.40q, %s has %s", bytes.TrimSpace(sum), s.name, format.MD5Text(data)); err != nil {
				return err
			}
		}
		if data != nil {
			if err := s.check(data); err != nil {
				return err
			}
		}
	}
	return v.readAnnex(ctx)
}

// read returns an object, nil when it is not there or, which is a finding, too
// large.
func (v *verifier) read(ctx context.Context, name string) ([]byte, error) {
	data, err := readObject(ctx, v.e, v.ref.Key(name))
	switch {
	case errors.Is(err, backupstore.ErrNotFound):
		return nil, nil
	case errors.Is(err, errTooLarge):
		return nil, v.found(name, "the object has more than %d bytes", v.e.Limits.MaxManifest)
	}
	return data, err
}

var errTooLarge = errors.New("object is too large")

// readObject returns a whole object of at most Limits.MaxManifest bytes, never
// nil without an error.
func readObject(ctx context.Context, e Env, key string) ([]byte, error) {
	r, err := e.Store.Get(ctx, key)
	if err != nil {
		return nil, about("read", key, err)
	}
	defer r.Close() //nolint:errcheck // was only read
	data, err := io.ReadAll(io.LimitReader(r, e.Limits.MaxManifest+1))
	switch {
	case err != nil:
		return nil, about("read", key, err)
	case int64(len(data)) > e.Limits.MaxManifest:
		return nil, fmt.Errorf("read %s: %w", key, errTooLarge)
	}
	return data, nil
}

// exportFiles compares manifest-files.json with the data files, one to one.
func (v *verifier) exportFiles(data []byte) error {
	files, err := format.ParseExportFiles(data)
	if err != nil {
		return v.found(format.FilesName, "%v", err)
	}
	index := make(map[string]int, len(v.m.Files))
	for i := range v.m.Files {
		index[v.m.Files[i].Key] = i
	}
	for _, f := range files {
		key, err := f.DataKey()
		i, ok := index[key]
		switch {
		case err != nil:
			err = v.found(format.FilesName, "%v", err)
		case !ok:
			err = v.found(format.FilesName, "it names %s, which the manifest does not, or names it twice", key)
		case f.Items != v.m.Files[i].Items:
			err = v.found(format.FilesName, "itemCount of %s is %d, the manifest says %d", key, f.Items, v.m.Files[i].Items)
		default:
			v.md5[i] = f.MD5
		}
		if err != nil {
			return err
		}
		delete(index, key)
	}
	for _, i := range slices.Sorted(maps.Values(index)) {
		if err := v.found(format.FilesName, "it does not name %s", v.m.Files[i].Key); err != nil {
			return err
		}
	}
	return nil
}

// exportSummary compares manifest-summary.json with the manifest.
func (v *verifier) exportSummary(data []byte) error {
	s, err := format.ParseExportSummary(data)
	if err != nil {
		return v.found(format.SummaryName, "%v", err)
	}
	t := &v.m.Table
	for _, d := range []struct {
		member    string
		got, want any
	}{
		{"itemCount", s.ItemCount, t.Items},
		{"tableArn", s.TableARN, t.ARN},
		{"tableId", s.TableID, t.ID},
		{"outputFormat", s.OutputFormat, format.ExportOutput},
	} {
		if d.got != d.want {
			if err := v.found(format.SummaryName, "%s is %v, the manifest says %v", d.member, d.got, d.want); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAnnex reads the annex. Nothing depends on it, so only a report mentions
// what is wrong with it.
func (v *verifier) readAnnex(ctx context.Context) error {
	if v.report == nil {
		return nil
	}
	data, err := v.read(ctx, format.AnnexName)
	if err != nil || data == nil {
		return err
	}
	annex, err := format.ParseAnnex(data)
	if err != nil {
		return v.found(format.AnnexName, "%v", err)
	}
	same := func(a format.AnnexFile, f format.DataFile) bool { return a.Key == f.Key }
	if !slices.EqualFunc(annex.Files, v.m.Files, same) {
		return v.found(format.AnnexName, "it does not name the data files of the manifest")
	}
	v.annex = annex
	return nil
}
