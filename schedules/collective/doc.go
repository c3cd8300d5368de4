// Package collective spells ring collectives out as task graphs, chunk by chunk.
package collective
