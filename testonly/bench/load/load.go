// Package load asks a server at a given rate, whatever its answers take, and says how long they took.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/echomind/sync/testonly/bench/figures"
)

const (
	// inFlight bounds the requests that are under way at once. Those that are due meanwhile wait, and their wait counts.
	inFlight = 256
	// answerTimeout bounds one request.
	answerTimeout = 15 * time.Second
)

// Ask is one of the requests that are mixed.
type Ask struct {
	Name string
	// Share is how many of the sum of all shares are of this name.
	Share int
	// Make is the i-th request of this name.
	Make func(ctx context.Context, i int) (*http.Request, error)
}

// Result is what came of a load.
type Result struct {
	// Took is how long each answer took, in milliseconds, by name; counted from when its request was due.
	Took map[string][]float64
	// Refused is how many answers were not 200, by name and status.
	Refused map[string]int
	Rate    float64
}

// All are the times of all names together.
func (r Result) All() (all []float64) {
	for _, took := range r.Took {
		all = append(all, took...)
	}
	return all
}

// P is the time below which a share of the answers of a name lies.
func (r Result) P(name string, share float64) float64 { return figures.Quantile(r.Took[name], share) }

// Run asks at a rate for a time, or until ctx ends, and waits for the answers.
func Run(ctx context.Context, client *http.Client, asks []Ask, rate int, lasts time.Duration) (Result, error) {
	result := Result{Took: map[string][]float64{}, Refused: map[string]int{}}
	order := mix(asks)
	type due struct {
		no int
		at time.Time
	}
	n := int(lasts.Seconds() * float64(rate))
	queue := make(chan due, n)
	began := time.Now()
	go func() {
		defer close(queue)
		for i := range n {
			at := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
			select {
			case <-time.After(time.Until(at)):
				queue <- due{i, at}
			case <-ctx.Done():
				return
			}
		}
	}()
	var mu sync.Mutex
	var errs []error
	var done sync.WaitGroup
	for range inFlight {
		done.Go(func() {
			for d := range queue {
				if ctx.Err() != nil {
					continue // what is still due is not asked any more
				}
				ask := asks[order[d.no%len(order)]]
				status, err := answered(context.WithoutCancel(ctx), client, ask, d.no)
				took := float64(time.Since(d.at)) / float64(time.Millisecond)
				mu.Lock()
				result.Took[ask.Name] = append(result.Took[ask.Name], took)
				if err != nil && len(errs) < 5 {
					errs = append(errs, fmt.Errorf("%s: %w", ask.Name, err))
				}
				if status != http.StatusOK {
					result.Refused[fmt.Sprintf("%s: %d", ask.Name, status)]++
				}
				mu.Unlock()
			}
		})
	}
	done.Wait()
	result.Rate = float64(len(result.All())) / time.Since(began).Seconds()
	return result, errors.Join(errs...)
}

// mix is an order in which each has its share, spread over the whole.
func mix(asks []Ask) (order []int) {
	sum := 0
	for _, a := range asks {
		sum += a.Share
	}
	credit := make([]int, len(asks))
	for range sum {
		next := 0
		for i, a := range asks {
			credit[i] += a.Share
			if credit[i] > credit[next] {
				next = i
			}
		}
		credit[next] -= sum
		order = append(order, next)
	}
	return order
}

func answered(ctx context.Context, client *http.Client, ask Ask, i int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r, err := ask.Make(ctx, i)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, errors.Join(err, answer.Body.Close())
}
