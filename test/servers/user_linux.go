// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is who servers run as; nil: as this process does.
type account struct{ uid, gid int }

// unprivileged returns the account for a program that refuses to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		a := new(account)
		if a.uid, err = strconv.Atoi(u.Uid); err == nil {
			a.gid, err = strconv.Atoi(u.Gid)
		}
		return a, err
	}
	return nil, errors.New("neither user postgres nor nobody exists, and PostgreSQL refuses to run as root")
}

func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

// owns reports whether a file belongs to the account.
func (a *account) owns(info fs.FileInfo) bool {
	uid := os.Geteuid()
	if a != nil {
		uid = a.uid
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == uid
}

// run makes a command one of the account, out of reach of the terminal's
// signals: what those end, ends the command.
func (a *account) run(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

// alive reports whether a process exists, whoever's it is.
func alive(pid int) bool { return pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
