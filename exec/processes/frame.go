package processes

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
)

// A frame is what goes over a connection at once: a byte of kind, the lengths of key
// and data, then both.
type frame struct {
	kind byte
	key  string
	data []byte
}

// The kinds of frames.
const (
	hello   byte = iota + 1 // key: purpose; data: a greeting
	welcome                 // data: the answer
	message                 // of the graph or its gathering
	beat                    // data: how much has begun or ended
	abort                   // data: why the run ends
	bye                     // the process leaves, and all is well
	ring                    // a message is to come over a wire that does not say so
	still                   // nothing happens any more in any process
)

// Bounds of a frame, far above what a run sends.
const (
	longestKey  = 1 << 12
	longestData = 1 << 36
	atOnce      = 16 << 20 // is taken of memory before so much has come
)

// head returns what comes before the data.
func (f frame) head() []byte {
	head := append(make([]byte, 0, 24+len(f.key)), f.kind)
	head = binary.AppendUvarint(head, uint64(len(f.key)))
	head = binary.AppendUvarint(head, uint64(len(f.data)))
	return append(head, f.key...)
}

// writeTo sends the frame in one piece, so that there are no small packets.
func (f frame) writeTo(w io.Writer) error {
	if len(f.key) > longestKey || len(f.data) > longestData {
		return fmt.Errorf("a message of %d bytes with a key of %d: at most %d and %d can be sent", len(f.data), len(f.key), int64(longestData), longestKey)
	}
	buffers := net.Buffers{f.head(), f.data}
	_, err := buffers.WriteTo(w)
	return err
}

// readFrame reads the next frame; io.EOF if there is none, and io.ErrUnexpectedEOF if
// it is cut off.
func readFrame(r *bufio.Reader) (f frame, err error) {
	if f.kind, err = r.ReadByte(); err != nil {
		return f, err
	}
	var lengths [2]uint64
	for i, most := range []uint64{longestKey, longestData} {
		if lengths[i], err = binary.ReadUvarint(r); err != nil {
			return f, cut(err)
		}
		if lengths[i] > most {
			return f, fmt.Errorf("a frame of %d bytes: at most %d are sent", lengths[i], most)
		}
	}
	if f.kind < hello || f.kind > still {
		return f, fmt.Errorf("a frame of kind %d, which there is not", f.kind)
	}
	key, err := readBytes(r, lengths[0])
	if err != nil {
		return f, cut(err)
	}
	f.key = string(key)
	f.data, err = readBytes(r, lengths[1])
	return f, cut(err)
}

// readBytes reads n bytes, and takes memory as they come.
func readBytes(r io.Reader, n uint64) ([]byte, error) {
	var data []byte
	for have := uint64(0); have < n; have = uint64(len(data)) {
		more := int(min(n-have, max(atOnce, have)))
		data = slices.Grow(data, more)[:int(have)+more]
		if _, err := io.ReadFull(r, data[have:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// cut makes the end of a connection within a frame an error of its own.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
