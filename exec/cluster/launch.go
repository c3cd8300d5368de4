package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// children lists the processes that the first process has started on its machine.
type children struct {
	list      []*child        // by process; nil for the first
	interrupt <-chan struct{} // closed when the user interrupts the first process, and with it all
}

// A child is a copy of this program.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended and was waited for
}

// launch starts copies of this program on this machine and joins them.
func launch(ctx context.Context, o Options) (*World, error) {
	i, err := Invite(o.Processes)
	if err != nil {
		return nil, err
	}
	i.First = i.entrance.process(0)
	if i.children, err = start(ctx, *i, o.Arguments); err != nil {
		i.entrance.close()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for k, c := range i.children.list[1:] {
		go func() {
			select {
			case <-c.ended:
			case <-ctx.Done():
				return
			}
			if !i.children.interrupted() {
				lost := i.entrance.process(k + 1)
				lost.PID = c.cmd.Process.Pid
				cancel(&LostError{Process: lost, How: c.cmd.ProcessState.String()})
			}
		}()
	}
	w, err := i.Join(ctx, 0, o)
	if err != nil {
		i.children.end(true)
	}
	return w, err
}

// start starts the copies from a thread that lives as long as they do. The system ends them
// with that thread, however this process ends.
func start(ctx context.Context, i Invitation, arguments []string) (*children, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("starting processes: %w", err)
	}
	c, started := &children{make([]*child, 1, i.Size), ctx.Done()}, make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		for rank := 1; rank < i.Size && err == nil; rank++ {
			if err = context.Cause(ctx); err == nil {
				err = c.add(exec.Command(program, arguments...), copyPlace{i, rank})
			}
		}
		started <- err
		for _, one := range c.list[1:] {
			<-one.ended
		}
	}()
	if err = <-started; err != nil {
		c.end(true)
		return nil, fmt.Errorf("starting processes: %w", err)
	}
	return c, nil
}

// add starts a copy.
func (c *children) add(cmd *exec.Cmd, p copyPlace) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), placeVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = diesWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	one := &child{cmd, make(chan struct{})}
	go func() {
		defer close(one.ended)
		cmd.Wait() // ProcessState says how it ended
	}()
	c.list = append(c.list, one)
	return nil
}

// How long child processes may take to end by themselves.
const (
	afterRun     = 10 * time.Second
	afterFailure = time.Second
)

// end waits for all children to end, and kills those that do not.
func (c *children) end(failed bool) {
	if c == nil {
		return
	}
	wait := afterRun
	if failed {
		wait = afterFailure
	}
	late, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for _, one := range c.list[1:] {
		select {
		case <-one.ended:
		case <-late.Done():
			one.cmd.Process.Kill()
			<-one.ended
		}
	}
}

// interrupted reports whether an interrupt may have ended a process. The first process gets it
// at about the same time.
func (c *children) interrupted() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.interrupt:
		return true
	case <-time.After(causeWait):
		return false
	}
}

// kill ends a process if this one has started it.
func (c *children) kill(k int) {
	if c != nil && c.list[k] != nil {
		c.list[k].cmd.Process.Kill()
	}
}

// exitState says how a process ended, if this one has started it.
func (c *children) exitState(k int) string {
	if c == nil {
		return ""
	}
	select {
	case <-c.list[k].ended:
		return c.list[k].cmd.ProcessState.String()
	case <-time.After(causeWait):
		return ""
	}
}

// killParent ends the first process if it has started this one and does not answer.
func (w *World) killParent(p Member) {
	if !w.invited || p.Rank != 0 || os.Getppid() != p.PID {
		return
	}
	if parent, err := os.FindProcess(p.PID); err == nil {
		parent.Kill()
	}
}
