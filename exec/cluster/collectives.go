package cluster

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
)

// Gather returns the data of all processes, by rank, at the first process; nil elsewhere.
func (w *World) Gather(ctx context.Context, key string, data []byte) ([][]byte, error) {
	if w.Rank > 0 {
		return nil, w.Send(0, key, data)
	}
	all := make([][]byte, w.Size)
	all[0] = data
	for k := 1; k < w.Size; k++ {
		var err error
		if all[k], err = w.Receive(ctx, k, key); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Broadcast returns the data of the first process.
func (w *World) Broadcast(ctx context.Context, key string, data []byte) ([]byte, error) {
	if w.Rank > 0 {
		return w.Receive(ctx, 0, key)
	}
	for k := 1; k < w.Size; k++ {
		if err := w.Send(k, key, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// Barrier returns when all processes have called it with that key.
func (w *World) Barrier(ctx context.Context, key string) error {
	if _, err := w.Gather(ctx, key, nil); err != nil {
		return err
	}
	_, err := w.Broadcast(ctx, key, nil)
	return err
}

// GatherValues returns the values of all processes, by rank, at the first process, and nil
// elsewhere. A value is anything that encoding/gob takes.
func GatherValues[T any](ctx context.Context, w *World, key string, own T) ([]T, error) {
	var data []byte
	if w.Rank > 0 {
		var err error
		if data, err = encode(own); err != nil {
			return nil, fmt.Errorf("sending %q: %w", key, err)
		}
	}
	all, err := w.Gather(ctx, key, data)
	if err != nil || w.Rank > 0 {
		return nil, err
	}
	values := make([]T, len(all))
	values[0] = own
	for k := 1; k < len(all); k++ {
		if err := decode(all[k], &values[k]); err != nil {
			return nil, fmt.Errorf("%q from process %d: %w", key, k, err)
		}
	}
	return values, nil
}

// AllGatherValues returns the values of all processes, by rank, in every process.
func AllGatherValues[T any](ctx context.Context, w *World, key string, own T) (values []T, err error) {
	if values, err = GatherValues(ctx, w, key, own); err != nil {
		return nil, err
	}
	var data []byte
	if w.Rank == 0 {
		if data, err = encode(values); err != nil {
			return nil, fmt.Errorf("sending %q: %w", key, err)
		}
	}
	if data, err = w.Broadcast(ctx, key, data); err == nil && w.Rank > 0 {
		err = decode(data, &values)
	}
	return values, err
}

func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(value)
	return b.Bytes(), err
}

func decode(data []byte, into any) error { return gob.NewDecoder(bytes.NewReader(data)).Decode(into) }
