package figures

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Machine says where figures were taken: a figure without it is worth nothing.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Memory    string `json:"memory"`
	System    string `json:"system"`
	// Load is what others kept the processor busy with before the first measurement: runnable processes, over a minute.
	Load string `json:"load"`
	// Sync is how long the disk takes to keep 8 kB, which is what a commit waits for.
	Sync time.Duration `json:"sync_ns"`
	// Versions are those of the servers and libraries that are measured.
	Versions []string `json:"versions"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s of memory, %s, load %s before the run; 8 kB are on the disk after %s.\n%s.",
		m.Processor, m.Cores, m.Memory, m.System, m.Load, m.Sync.Round(10*time.Microsecond), strings.Join(m.Versions, ", "))
}

// Look describes this machine, as far as it says; dir is where the servers keep their data.
func Look(dir string, versions ...string) (Machine, error) {
	took, err := syncTime(dir)
	if err != nil {
		return Machine{}, err
	}
	load, _, _ := strings.Cut(readLine("/proc/loadavg", ""), " ")
	return Machine{
		Processor: orUnknown(readLine("/proc/cpuinfo", "model name")), Cores: runtime.NumCPU(),
		Memory: orUnknown(readLine("/proc/meminfo", "MemTotal")), System: runtime.GOOS + "/" + runtime.GOARCH,
		Load: orUnknown(load), Sync: took, Versions: append(versions, runtime.Version()),
	}, nil
}

// Linked is a module's version in this program.
func Linked(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	if i < 0 {
		return "unknown"
	}
	return info.Deps[i].Version
}

// readLine is the first line of a file, or what it says behind a name and a colon; empty where there is none.
func readLine(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name == "" {
			return lines.Text()
		}
		if before, after, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// syncTime is the median time in which a page that is written to a file in dir is safe.
func syncTime(dir string) (took time.Duration, err error) {
	file, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, fmt.Errorf("measure the disk: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	page := make([]byte, 8<<10)
	times := make([]float64, 50)
	for i := range times {
		began := time.Now()
		if _, err = file.WriteAt(page, 0); err == nil {
			err = file.Sync()
		}
		if err != nil {
			return 0, fmt.Errorf("measure the disk: %w", err)
		}
		times[i] = float64(time.Since(began))
	}
	return time.Duration(Median(times)), nil
}
