package wire

// seenBits is how much of a mark is the number of a message.
const seenBits = 40

// SeenMark places a message of a session among those that showed documents: larger for a later listing of the session
// (from 1) and, within one listing, for a smaller number. So the largest mark of a document says which message of the
// session's last listing showed it first, in whatever order they are stored; and it was shown by a message up to number
// n exactly where its mark is at least SeenMark(listing, n). 0 for no listing.
func SeenMark(listing int32, number int64) int64 {
	if listing < 1 {
		return 0
	}
	return int64(listing)<<seenBits + (1<<seenBits - 1 - number)
}
