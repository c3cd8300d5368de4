package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Rendezvous is where a process meets the others of its run, if each was started by itself:
// with torchrun's variables, or with flags.
type Rendezvous struct {
	Rank, Size int
	// Master is the host and port where the first process listens.
	Master string
	// LocalRank is the number of this process on its machine, which chooses cores and GPUs; -1
	// is the next that is free.
	LocalRank int
	// Token is a secret of the run, which every process must know. It may be empty only if the
	// master's address is loopback.
	Token string
	// From names where the values are from.
	From PlaceNames
}

// PlaceNames says what errors call the values of a Rendezvous.
type PlaceNames struct{ Rank, Size, Master string }

// FlagNames are the names of values from flags.
var FlagNames = PlaceNames{"--rank ", "--world-size ", "--master "}

// The variables that torchrun sets, and that PyTorch's init_process_group reads.
const (
	rankVariable, sizeVariable   = "RANK", "WORLD_SIZE"
	masterVariable, portVariable = "MASTER_ADDR", "MASTER_PORT"
	localVariable, tokenVariable = "LOCAL_RANK", "PSIM_TOKEN"
)

// Bounds of a rendezvous: bytes of a token, and processes, each with links to all others.
const longestToken, mostPlaces = 1 << 10, 1 << 12

// RendezvousOf reads the place of this process from the environment, with a token unless that is
// "". It is nil unless all four of torchrun's variables are set.
func RendezvousOf(getenv func(string) string, token string) (*Rendezvous, error) {
	for _, name := range []string{rankVariable, sizeVariable, masterVariable, portVariable} {
		if getenv(name) == "" {
			return nil, nil
		}
	}
	p := &Rendezvous{
		Master: net.JoinHostPort(strings.Trim(getenv(masterVariable), "[]"), getenv(portVariable)),
		Token:  token,
		From:   PlaceNames{rankVariable + "=", sizeVariable + "=", masterVariable + " and " + portVariable + ": "},
	}
	for _, n := range []struct {
		name string
		into *int
	}{{rankVariable, &p.Rank}, {sizeVariable, &p.Size}} {
		var err error
		if *n.into, err = strconv.Atoi(getenv(n.name)); err != nil {
			return nil, fmt.Errorf("%s=%s: must be a number", n.name, getenv(n.name))
		}
	}
	return p, p.Complete(getenv)
}

// Complete checks the rank, the size and the address, and adds the local rank and, unless there
// is one already, the token of the environment.
func (p *Rendezvous) Complete(getenv func(string) string) error {
	host, port, err := net.SplitHostPort(p.Master)
	number, notNumber := strconv.Atoi(port)
	switch {
	case p.Size < 1 || p.Size > mostPlaces:
		return fmt.Errorf("%s%d: must be the number of processes, 1 to %d", p.From.Size, p.Size, mostPlaces)
	case p.Rank < 0 || p.Rank >= p.Size:
		return fmt.Errorf("%s%d: must be 0 to %d, as %d take part", p.From.Rank, p.Rank, p.Size-1, p.Size)
	case err != nil || host == "" || notNumber != nil || number < 1 || number > 1<<16-1:
		return fmt.Errorf("%s%s: must be HOST:PORT, where the process of rank 0 listens, such as 10.0.0.1:29500",
			p.From.Master, p.Master)
	}
	p.LocalRank = -1
	if text := getenv(localVariable); text != "" {
		if p.LocalRank, err = strconv.Atoi(text); err != nil || p.LocalRank < 0 || p.LocalRank >= p.Size {
			return fmt.Errorf("%s=%s: must be 0 to %d", localVariable, text, p.Size-1)
		}
	}
	if p.Token == "" {
		p.Token = strings.TrimSpace(getenv(tokenVariable))
	}
	return p.checkAddress(host)
}

// checkAddress wants an address that others can reach, and a token unless it is loopback.
func (p *Rendezvous) checkAddress(host string) error {
	if len(p.Token) > longestToken {
		return fmt.Errorf("the token has %d bytes; at most %d are compared", len(p.Token), longestToken)
	}
	if p.Size == 1 {
		return nil
	}
	list, err := net.LookupIP(host)
	if err != nil {
		return fmt.Errorf("%s%s: %w", p.From.Master, p.Master, err)
	}
	loopback := true
	for _, ip := range list {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return fmt.Errorf("%s%s: is not the address of one machine; name the one where rank 0 runs",
				p.From.Master, p.Master)
		}
		loopback = loopback && ip.IsLoopback()
	}
	if !loopback && p.Token == "" {
		return fmt.Errorf("%s%s: can be reached from other machines, so the processes need a token that "+
			"only they know: give all the same --token-file, or PSIM_TOKEN in the environment", p.From.Master, p.Master)
	}
	return nil
}

// ReadToken reads a token from a file: its first line, without the spaces around it.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longestToken+2))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", errors.Unwrap(err))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	switch token := strings.TrimSpace(line); {
	case token == "":
		return "", errors.New("has no token, which is its first line")
	case len(token) > longestToken:
		return "", fmt.Errorf("has a first line of more than %d bytes, which is too long for a token", longestToken)
	default:
		return token, nil
	}
}

// check refuses more processes than devices.
func (p *Rendezvous) check(ranks int) error {
	if p.Size > ranks {
		return fmt.Errorf("%s%d: more processes than devices (%d); every process needs one at least",
			p.From.Size, p.Size, ranks)
	}
	return nil
}

// join meets the other processes. It returns nil if this is the only one.
func (p *Rendezvous) join(ctx context.Context, o Options) (*World, error) {
	if p.Size == 1 {
		return nil, nil
	}
	i := Invitation{Size: p.Size, Address: p.Master, Token: p.Token, place: p, patience: o.Stall}
	if i.patience == 0 {
		i.patience = time.Hour
	}
	if p.Rank == 0 {
		var err error
		if i.entrance, err = openAt(p.Master, p.Token, p.Size); err != nil {
			return nil, p.explain(err)
		}
	}
	return i.Join(ctx, p.Rank, o)
}

// explain says what to do if the first process cannot listen.
func (p *Rendezvous) explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		err = errors.New("something else listens there, such as another process of rank 0; choose another port")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		err = errors.New("is not an address of this machine; name the machine where rank 0 runs")
	}
	return &RefusedError{fmt.Sprintf("%s%s: %v", p.From.Master, p.Master, err)}
}
