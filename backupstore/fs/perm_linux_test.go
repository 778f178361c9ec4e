// SPDX-License-Identifier: Apache-2.0

package fs

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestRootNotWritable: a root of mode 0500, really.
func TestRootNotWritable(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	s := openAt(t, root, nil)
	if err := os.Chmod(root, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		notWritable(t, s)
		return
	}
	const nobody = 65534
	if err := os.Chown(root, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if dir != root {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); errno != 0 {
			t.Errorf("setfsuid: %v", errno)
			return
		}
		notWritable(t, s)
	}()
	<-done
}
