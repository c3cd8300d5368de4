package cluster

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
)

// A frame is what is sent over a connection in one piece: a byte for its kind, the lengths of
// key and data, and then both.
type frame struct {
	kind byte
	key  string
	data []byte
}

// The kinds of frames.
const (
	hello    byte = iota + 1 // key: the purpose; data: a greeting
	welcome                  // data: the list of processes
	message                  // of the graph, or of a collective between processes
	beat                     // data: the progress of the process
	abort                    // data: a notice
	bye                      // the process leaves without an error
	announce                 // a message is coming over a wire that does not notify
	stuck                    // nothing happens in any process
	refuse                   // data: a refusal, before the run begins
)

// Bounds of a frame, key and data together, far above what a run sends.
const (
	longestKey   = 1 << 12
	longestFrame = 1 << 36
	readAtOnce   = 16 << 20 // allocated before that much has arrived

	longestGreeting = 1 << 12          // the first frame of a process
	longestRefusal  = 1 << 16          // a frame of a process in the lobby
	longestList     = mostPlaces << 12 // the list of processes
)

// head returns what precedes the data.
func (f frame) head() []byte {
	head := append(make([]byte, 0, 24+len(f.key)), f.kind)
	head = binary.AppendUvarint(head, uint64(len(f.key)))
	head = binary.AppendUvarint(head, uint64(len(f.data)))
	return append(head, f.key...)
}

// writeTo sends the frame in one piece, to avoid small packets.
func (f frame) writeTo(w io.Writer) error {
	if len(f.key) > longestKey || len(f.key)+len(f.data) > longestFrame {
		return fmt.Errorf("a message of %d bytes with a key of %d: at most %d can be sent, %d of them for the key",
			len(f.data), len(f.key), int64(longestFrame), longestKey)
	}
	buffers := net.Buffers{f.head(), f.data}
	_, err := buffers.WriteTo(w)
	return err
}

// readFrame reads the next frame, of at most a number of bytes. The error is io.EOF at the end
// of the connection, and io.ErrUnexpectedEOF within a frame.
func readFrame(r *bufio.Reader, most uint64) (f frame, err error) {
	if f.kind, err = r.ReadByte(); err != nil {
		return f, err
	}
	var lengths [2]uint64
	left := most
	for i := range lengths {
		if lengths[i], err = binary.ReadUvarint(r); err != nil {
			return f, truncated(err)
		}
		if lengths[i] > left || i == 0 && lengths[i] > longestKey {
			return f, fmt.Errorf("a frame of %d bytes: at most %d are sent", lengths[i], left)
		}
		left -= lengths[i]
	}
	if f.kind < hello || f.kind > refuse {
		return f, fmt.Errorf("a frame of kind %d, which there is not", f.kind)
	}
	key, err := readBytes(r, lengths[0])
	if err != nil {
		return f, truncated(err)
	}
	f.key = string(key)
	f.data, err = readBytes(r, lengths[1])
	return f, truncated(err)
}

// readBytes reads n bytes, and allocates memory as they arrive.
func readBytes(r io.Reader, n uint64) ([]byte, error) {
	var data []byte
	for have := uint64(0); have < n; have = uint64(len(data)) {
		more := int(min(n-have, max(readAtOnce, have)))
		data = slices.Grow(data, more)[:int(have)+more]
		if _, err := io.ReadFull(r, data[have:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// truncated turns the end of a connection within a frame into an error of its own.
func truncated(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
