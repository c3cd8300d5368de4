package cluster

import (
	"fmt"
	"sync"
)

// A mailbox holds messages until they are received.
type mailbox struct {
	mu    sync.Mutex
	slots map[address]chan []byte // with room for one message each
}

// An address identifies a message.
type address struct {
	from int
	key  string
}

// slot returns the channel of a message.
func (b *mailbox) slot(a address) chan []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.slots == nil {
		b.slots = map[address]chan []byte{}
	}
	s := b.slots[a]
	if s == nil {
		s = make(chan []byte, 1)
		b.slots[a] = s
	}
	return s
}

// put stores a message.
func (b *mailbox) put(a address, data []byte) error {
	select {
	case b.slot(a) <- data:
		return nil
	default:
		return fmt.Errorf("process %d has sent %q twice", a.from, a.key)
	}
}

// drop removes the slot of a message that was received.
func (b *mailbox) drop(a address) {
	b.mu.Lock()
	delete(b.slots, a)
	b.mu.Unlock()
}
