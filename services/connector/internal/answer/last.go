package answer

// LastOf keeps the last of several occurrences of an item, at its place ("driveItem: delta", Remarks). It drops items without an id.
func LastOf[T any](items []T, id func(T) string) []T {
	last := make(map[string]int, len(items))
	for i, item := range items {
		last[id(item)] = i
	}
	kept := make([]T, 0, len(last))
	for i, item := range items {
		if of := id(item); of != "" && last[of] == i {
			kept = append(kept, item)
		}
	}
	return kept
}
