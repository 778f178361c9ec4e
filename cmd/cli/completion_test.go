// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/extenddb/extenddb/test/need"
)

// TestBashCompletion: the script completes in a bash that has no package
// bash-completion.
func TestBashCompletion(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		need.Missing(t, "bash", "no bash")
	}
	code, script, stderr := run(t.Context(), "completion", "bash")
	if code != exitOK {
		t.Fatal(stderr)
	}
	_, help, _ := run(t.Context(), "completion", "bash", "--help")
	if strings.Contains(help, "depends on the 'bash-completion'") || !strings.Contains(help, "words that hold : or =") {
		t.Errorf("help:\n%s", help)
	}
	// The program is asked for the candidates: this one stands in for it.
	dir := t.TempDir()
	program := "#!/bin/sh\necho \"$*\" >>" + filepath.Join(dir, "asked") + "\nprintf 'serve\\tServe\\n:4\\n'\n"
	if err := os.WriteFile(filepath.Join(dir, "extenddb"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "--noprofile", "-c", script+`
COMP_WORDS=(extenddb se) COMP_CWORD=1 COMP_LINE='extenddb se' COMP_POINT=11 COMP_TYPE=9
__start_extenddb
printf '%s\n' "${COMPREPLY[@]}"`)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "BASH_ENV=")
	out, err := cmd.Output() // compopt complains that nobody completes
	if err != nil || strings.TrimSpace(string(out)) != "serve" {
		t.Errorf("%v: %s", err, out)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || !strings.Contains(string(asked), "se") {
		t.Errorf("it was asked %q (%v)", asked, err)
	}
}

// TestCompletionOfAnotherShell names those that there are.
func TestCompletionOfAnotherShell(t *testing.T) {
	t.Parallel()
	code, _, stderr := run(t.Context(), "completion", "tcsh")
	if code != exitUsage || !strings.Contains(stderr, `unknown command "tcsh"`) || !strings.Contains(stderr, "hint: there is completion for bash, zsh, fish and powershell") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
