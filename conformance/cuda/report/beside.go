package report

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// beside times what other engines do on the same device, where they are installed: the script says so itself where they
// are not.
func (r *report) beside() error {
	if _, err := exec.LookPath(r.o.Python); err != nil {
		r.line("Not measured: %s is not there.", r.o.Python)
		return nil
	}
	for _, name := range r.o.Shapes {
		if r.over("beside", "%s, and what follows", r.called(name)) {
			return nil
		}
		dir, err := folder(name)
		if err != nil {
			return err
		}
		deadline, _ := r.ctx.Deadline()
		args := []string{r.o.Beside, "--config", dir, "--context", strconv.Itoa(r.o.Context), "--rows",
			numbers(r.o.Rows), "--prompts", numbers(r.o.Prompts), "--for", fmt.Sprint(r.o.For.Seconds()), "--device",
			strconv.Itoa(r.o.Device.Index), "--time", fmt.Sprint(int(time.Until(deadline).Seconds()))}
		cmd := exec.CommandContext(r.ctx, r.o.Python, args...)
		cmd.WaitDelay = time.Second
		var text, errors strings.Builder
		cmd.Stdout, cmd.Stderr = &text, &errors
		err = cmd.Run()
		r.line("### %s\n\n%s", r.called(name), text.String())
		if r.over("beside", "%s, the rest of it and what follows", r.called(name)) {
			return nil
		}
		if err != nil {
			said := errors.String()
			return fmt.Errorf("%s ends with %w: %s", r.o.Beside, err, said[max(0, len(said)-500):])
		}
	}
	return nil
}

// numbers joins numbers by commas.
func numbers(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
