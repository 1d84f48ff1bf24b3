package leader

import "context"

// none leads from the start to the end.
type none struct{ candidate *Candidate }

// None holds no election: a single scheduler, or several at once, which claims alone keep apart.
func None(candidate *Candidate) Elector {
	candidate.alone = true
	return none{candidate}
}

func (n none) Run(ctx context.Context, work Work) error { return n.candidate.Lead(ctx, work) }
