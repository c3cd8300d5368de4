package plans

import (
	"cmp"
	"slices"

	"psim/results/rankings"
)

// divisionByUnits names this way to divide a space in the files of shards. Shards that were divided
// otherwise have other plans.
const divisionByUnits = "units"

// divisionOf names how a shard's plans are chosen.
func divisionOf(shard rankings.Shard) string {
	if shard.Of == 0 {
		return ""
	}
	return divisionByUnits
}

// sharded returns the plans of a space that a shard searches. Plans whose layers are priced together
// stay together: each unit of them goes to the shard that has the fewest plans so far, the largest
// units first.
func sharded(space *Space, shard rankings.Shard) []Plan {
	if shard.Of == 0 {
		return space.Plans
	}
	units := unitsOf(space.Plans, (len(space.Plans)+shard.Of-1)/shard.Of)
	slices.SortStableFunc(units, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	plans := make([]int, shard.Of) // how many every shard has
	var own []int
	for _, unit := range units {
		least := 0
		for i, n := range plans {
			if n < plans[least] {
				least = i
			}
		}
		if plans[least] += len(unit); least == shard.Number-1 {
			own = append(own, unit...)
		}
	}
	slices.Sort(own)
	list := make([]Plan, len(own))
	for i, at := range own {
		list[i] = space.Plans[at]
	}
	return list
}

// unitsOf lists the indices of plans whose layers are priced together. A unit has at most a given number.
func unitsOf(list []Plan, most int) (units [][]int) {
	at := map[layersOf]int{}
	for i := range list {
		layers := layersOf{list[i].space, layerKeyOf(&list[i])}
		unit, known := at[layers]
		if !known || len(units[unit]) == most {
			unit, units = len(units), append(units, nil)
			at[layers] = unit
		}
		units[unit] = append(units[unit], i)
	}
	return units
}
