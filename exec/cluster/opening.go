package cluster

import (
	"cmp"
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
	errStranger = errors.New("it is not psim")
	errToken    = errors.New("it knows another token")
)

// A versionError says that a process knows the token, and opens connections otherwise than this one.
type versionError struct{ theirs, own string } // marks

// Error names both marks.
func (e *versionError) Error() string {
	return fmt.Sprintf("another version of psim: its connections begin with %q, and those of this psim with %q: %s",
		e.theirs, e.own, sameVersion)
}

// sameVersion says what to do about different versions.
const sameVersion = "start the same version everywhere"

// opening returns the opening of one side.
func opening(token, side string) []byte {
	proof := hmac.New(sha256.New, []byte(token))
	proof.Write([]byte(side))
	return proof.Sum([]byte(mark))
}

// readOpening reads the opening of the other side. It compares the proofs first, in a time that does
// not depend on where they differ; a proof says nothing of the mark, so other versions are known by name.
func readOpening(r io.Reader, token, side string) error {
	var got [openingSize]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return truncated(err)
	}
	its := string(got[:len(mark)])
	switch known := hmac.Equal(got[len(mark):], opening(token, side)[len(mark):]); {
	case known && its != mark:
		return &versionError{its, mark}
	case known:
		return nil
	case its[:len(mark)-1] == mark[:len(mark)-1]: // other than the version
		return errToken
	}
	return errStranger
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

// otherVersion refuses a process of another version than the first one's.
func otherVersion(who, its, first string) error {
	return &RefusedError{fmt.Sprintf("%s is psim %s, and the first process psim %s: %s",
		who, cmp.Or(its, "of an earlier version"), cmp.Or(first, "of an earlier version"), sameVersion)}
}

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
