// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
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
	return nil, fmt.Errorf("neither user postgres nor nobody exists, and PostgreSQL refuses to run as root")
}

func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	return os.Chown(dir, a.uid, a.gid)
}

// run makes a command one of the account.
func (a *account) run(cmd *exec.Cmd) {
	cmd.Dir = "/"
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}}
	}
}
