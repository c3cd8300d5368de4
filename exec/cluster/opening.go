package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An opening is what both sides of a connection send first: a mark by which psim knows psim, and
// a proof that the sender knows the token. Its size is fixed, so nothing is allocated for a
// stranger, and the token itself is not sent.
const (
	mark        = "psim1"
	openingSize = len(mark) + sha256.Size
)

// The sides of a connection, whose proofs differ: otherwise a stranger could answer with the
// proof that it was sent.
const (
	asking    = "asking"
	answering = "answering"
)

// What is wrong with an opening.
var (
	errStranger = errors.New("it is not psim, or another version of it")
	errToken    = errors.New("it knows another token")
)

// opening returns the opening of one side.
func opening(token, side string) []byte {
	proof := hmac.New(sha256.New, []byte(token))
	proof.Write([]byte(side))
	return proof.Sum([]byte(mark))
}

// readOpening reads the opening of the other side, and compares it in a time that does not
// depend on where the two differ.
func readOpening(r io.Reader, token, side string) error {
	var got [openingSize]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return truncated(err)
	}
	switch {
	case string(got[:len(mark)]) != mark:
		return errStranger
	case !hmac.Equal(got[:], opening(token, side)):
		return errToken
	}
	return nil
}

// otherToken tells a process what to do about its token.
const otherToken = "the token of this process differs from the first one's: " + sameToken

// sameToken says how processes get the same token.
const sameToken = "give all the same by --token-file or PSIM_TOKEN, or none to all"

// A refusal tells another process why the run does not begin.
type refusal struct {
	Text        string
	Usage       bool // flags or the environment are wrong
	Interrupted bool // the user interrupted a process
}

// A RefusedError says that the processes of a run were not started alike.
type RefusedError struct{ Text string }

// Error says which process was started differently.
func (e *RefusedError) Error() string { return e.Text }

// refusalOf returns the refusal that tells others of an error.
func refusalOf(err error) refusal {
	return refusal{
		Text: err.Error(), Usage: errors.As(err, new(*RefusedError)), Interrupted: errors.Is(err, context.Canceled),
	}
}

func (r refusal) frame() frame {
	data, _ := json.Marshal(r) // cannot fail on plain fields
	return frame{kind: refuse, data: data}
}

// readRefusal reads what another process says; a text that cannot be read is its own reason.
func readRefusal(data []byte) (r refusal) {
	if err := json.Unmarshal(data, &r); err != nil {
		r.Text = fmt.Sprintf("for an unknown reason: %q", data)
	}
	return r
}

// err returns the refusal as an error of this process.
func (r refusal) err() error {
	switch {
	case r.Interrupted:
		return context.Canceled
	case r.Usage:
		return &RefusedError{r.Text}
	}
	return errors.New(r.Text)
}
