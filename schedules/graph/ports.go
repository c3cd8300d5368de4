package graph

// Ports says which links the messages and collectives of a graph use, by direction: a port is one
// direction of a link of a rank's devices. What uses a port at the same time has equal shares
// of it.
type Ports struct {
	// Groups lists, by group, the ports that its collectives use. Ports are numbered from 0.
	Groups [][]int32
	// Message returns the port that a message leaves by, and the one that it arrives at. It is for
	// messages that queue for a link.
	Message func(t *Task) [2]int32
}

// A portUse counts what uses a port: the messages of a link, which follow each other, and streams
// of collectives.
type portUse struct {
	stream      int32 // of collectives; None before the first
	messages    bool
	collectives bool
	shared      bool
}

// Shared lists the ports that collectives share with something else: with messages, or with
// collectives of other streams. Everything else that uses a port runs one after another.
func (g *Graph) Shared(p *Ports) []bool {
	var uses []portUse
	at := func(port int32) *portUse {
		uses = extended(uses, port)
		return &uses[port]
	}
	seen := map[[2]int32]bool{} // by group and stream
	for i := range g.Classes {
		switch t := &g.Classes[i]; {
		case t.Kind.Message():
			for _, port := range p.Message(t) {
				u := at(port)
				u.messages, u.shared = true, u.shared || u.collectives
			}
		case t.Kind.Collective() && !seen[[2]int32{t.Peer, t.Stream}]:
			seen[[2]int32{t.Peer, t.Stream}] = true
			for _, port := range p.Groups[t.Peer] {
				if u := at(port); port/PortsOfRank == t.Rank {
					u.shared = u.shared || u.messages || u.collectives && u.stream != t.Stream
					u.collectives, u.stream = true, t.Stream
				}
			}
		}
	}
	shared := make([]bool, len(uses))
	for port, u := range uses {
		shared[port] = u.shared
	}
	return shared
}

// PortsOfRank is the number of ports of every rank, whose numbers follow each other.
const PortsOfRank = 4
