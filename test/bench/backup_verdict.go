// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// The targets of backups and restores.
const (
	minBackupSpeed   = 0.9   // times gzip -6
	minRestoreSpeed  = 0.5   // times bare INSERTs
	maxBackupMemory  = 64.0  // MiB above idle
	maxRestoreMemory = 128.0 // MiB above idle
	maxWriterGrowth  = 3.0   // times the p99 of writers without a backup
)

// backupTarget is what is asked of a backup or a restore.
type backupTarget struct {
	what           string
	alone, serving string // jobs
	speed, memory  float64
	against        string
}

func backupTargets() []backupTarget {
	return []backupTarget{
		{"backup", jobBackup, jobBackupServing, minBackupSpeed, maxBackupMemory, "gzip -6 of the same lines"},
		{"restore", jobRestore, jobRestoreServing, minRestoreSpeed, maxRestoreMemory, "bare INSERTs of the same rows and entries"},
	}
}

// backupVerdicts judges speed with the largest table, and memory with each.
func backupVerdicts(b *Backups) (out []Verdict) {
	if b == nil || len(b.Tables) == 0 {
		return nil
	}
	largest := b.Tables[len(b.Tables)-1]
	for _, t := range backupTargets() {
		for _, job := range []string{t.alone, t.serving} {
			if speed, ok := largest.speed(job); ok {
				out = append(out, Verdict{
					fmt.Sprintf("%s, %s items: at least %.1f of the speed of %s", job, count(largest.Items), t.speed, t.against),
					fmt.Sprintf("%.2f", speed), judge(speed >= t.speed),
				})
			}
		}
		for _, table := range b.Tables {
			out = append(out, memoryVerdict(t, table))
		}
		if largest.Items < maxSynthetic {
			out = append(out, Verdict{memoryTarget(t, maxSynthetic), "", "not judged: it takes -items " + fmt.Sprint(maxSynthetic)})
		}
	}
	if w := b.Writers; w != nil {
		growth := w.growth()
		out = append(out, Verdict{
			fmt.Sprintf("writers' p99 during a backup: at most %.0f times that before", maxWriterGrowth),
			fmt.Sprintf("%.1f times", growth), judge(growth <= maxWriterGrowth),
		})
	}
	return out
}

func memoryTarget(t backupTarget, items int) string {
	return fmt.Sprintf("%s, %s items: at most %.0f MiB above idle", t.what, count(items), t.memory)
}

func memoryVerdict(t backupTarget, table *BackupTable) Verdict {
	v := Verdict{Target: memoryTarget(t, table.Items), Result: "not judged: it was not measured"}
	alone, serving := table.job(t.alone), table.job(t.serving)
	if alone == nil || serving == nil {
		return v
	}
	a, aok := alone.memory()
	s, sok := serving.memory()
	if aok && sok {
		v.Measured = fmt.Sprintf("%.1f MiB, by a server %.1f MiB", a.Peak, s.Peak)
		v.Result = judge(max(a.Peak, s.Peak) <= t.memory)
	}
	return v
}

func count(n int) string { return humanize.Comma(int64(n)) }
