// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ProbePrefix is where Check puts its objects. Nothing else lives there.
const ProbePrefix = ".extenddb-probe"

// Probe is one step of Check: what was tried and what came of it.
type Probe struct {
	Step string `json:"step"` // list, put, get, head, overwrite, put_if_absent, put_if_match, delete
	OK   bool   `json:"ok"`
	// Error says what went wrong, or why the step was not tried; empty when OK.
	Error string `json:"error,omitempty"`
	// Missing is the right that is missing, when that is the reason.
	Missing string `json:"missing,omitempty"`
}

// cleanUp is how long Check takes at most to remove its objects once its
// context has ended.
const cleanUp = 30 * time.Second

// Check tries out everything a backup needs of a store, with small objects
// below ProbePrefix that it always removes. It returns all steps in a fixed
// order, however many fail.
func Check(ctx context.Context, s Store) []Probe {
	p := prober{s: s, prefix: ProbePrefix + "/" + uuid.NewString()}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		_, _ = s.DeletePrefix(ctx, p.prefix) // the step "delete" has told what is wrong with it
	}()
	steps := []struct {
		name, right string
		needsPut    bool
		run         func(context.Context) error
	}{
		{"list", "to list objects", false, p.list},
		{"put", "to write objects", false, p.put},
		{"get", "to read objects", true, p.get},
		{"head", "to read objects", true, p.head},
		{"overwrite", "to replace objects", true, p.overwrite},
		{"put_if_absent", "to write objects", true, p.putIfAbsent},
		{"put_if_match", "to replace objects", true, p.putIfMatch},
		{"delete", "to delete objects", true, p.delete},
	}
	var probes []Probe
	stored := false
	for _, step := range steps {
		probe := Probe{Step: step.name}
		if step.needsPut && !stored {
			probe.Error = "not tried: nothing could be put"
			probes = append(probes, probe)
			continue
		}
		err := step.run(ctx)
		if probe.OK = err == nil; err != nil {
			probe.Error = err.Error()
		}
		if errors.Is(err, ErrPermission) {
			probe.Missing = step.right
		}
		stored = stored || step.name == "put" && err == nil
		probes = append(probes, probe)
	}
	return probes
}

// prober holds what the steps share. An object is named by the step that
// needs it.
type prober struct {
	s      Store
	prefix string
}

const (
	probeFirst  = "extenddb store check, first version"
	probeSecond = "extenddb store check, second version"
)

func (p *prober) key() string { return p.prefix + "/object" }

func (p *prober) write(ctx context.Context, key, body string, o PutOptions) (PutResult, error) {
	o.Size = int64(len(body))
	return p.s.Put(ctx, key, strings.NewReader(body), o)
}

func (p *prober) list(ctx context.Context) error {
	for _, err := range p.s.List(ctx, p.prefix) {
		return err
	}
	return nil
}

func (p *prober) put(ctx context.Context) error {
	_, err := p.write(ctx, p.key(), probeFirst, PutOptions{})
	return err
}

func (p *prober) get(ctx context.Context) error { return p.holds(ctx, probeFirst) }

// holds returns an error unless the object is this one.
func (p *prober) holds(ctx context.Context, want string) (err error) {
	r, err := p.s.Get(ctx, p.key())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	got, err := io.ReadAll(io.LimitReader(r, int64(len(probeFirst)+len(probeSecond))))
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", p.key(), err)
	case string(got) != want:
		return fmt.Errorf("the store does not return what was put last: %q instead of %q", got, want)
	}
	return nil
}

func (p *prober) head(ctx context.Context) error {
	meta, err := p.s.Head(ctx, p.key())
	switch {
	case err != nil:
		return err
	case meta == nil:
		return errors.New("the store does not find what was just put")
	case meta.Size != int64(len(probeFirst)):
		return fmt.Errorf("the store reports %d bytes for an object of %d", meta.Size, len(probeFirst))
	case meta.LastModified.IsZero():
		return errors.New("the store does not tell when an object was last modified")
	}
	return nil
}

func (p *prober) overwrite(ctx context.Context) error {
	if _, err := p.write(ctx, p.key(), probeSecond, PutOptions{}); err != nil {
		return err
	}
	return p.holds(ctx, probeSecond)
}

func (p *prober) putIfAbsent(ctx context.Context) error {
	key := p.prefix + "/absent"
	if _, err := p.write(ctx, key, probeFirst, PutOptions{IfAbsent: true}); err != nil {
		return err
	}
	_, err := p.write(ctx, key, probeSecond, PutOptions{IfAbsent: true})
	return ignored(err, ErrExists)
}

func (p *prober) putIfMatch(ctx context.Context) error {
	key := p.prefix + "/match"
	first, err := p.write(ctx, key, probeFirst, PutOptions{})
	if err != nil {
		return err
	}
	if _, err := p.write(ctx, key, probeSecond, PutOptions{IfMatch: first.ETag}); err != nil {
		return err
	}
	_, err = p.write(ctx, key, probeFirst, PutOptions{IfMatch: first.ETag})
	return ignored(err, ErrConflict)
}

// ignored judges what a put whose condition does not hold came back with.
func ignored(err, want error) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return errors.New("the store ignores the condition of a put: two writers could overwrite each other")
	}
	return err
}

func (p *prober) delete(ctx context.Context) error {
	if _, err := p.s.DeletePrefix(ctx, p.prefix); err != nil {
		return err
	}
	for meta, err := range p.s.List(ctx, p.prefix) {
		if err != nil {
			return err
		}
		return fmt.Errorf("the store still lists %s after deleting it", meta.Key)
	}
	return nil
}
