// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"time"

	"github.com/extenddb/extenddb/server/progress"
)

// reportEvery is the least time between two events of mere progress.
const reportEvery = 100 * time.Millisecond

// meter returns the meter of a job, which ends with finish.
func (e Env) meter(kind progress.Kind, table string) *progress.Meter {
	return progress.NewMeter(e.Clock, e.Report, progress.Event{Job: e.Job, Kind: kind, Table: table}, reportEvery)
}

// finish publishes the end of a job.
func finish(ctx context.Context, m *progress.Meter, err error) {
	m.Finish(Outcome(ctx, err))
}
