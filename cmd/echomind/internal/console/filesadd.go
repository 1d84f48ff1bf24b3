package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

// filesAtOnce is how many files one request uploads: the most that the API takes.
const filesAtOnce = 100

// takenFiles is what was uploaded.
type takenFiles struct {
	ConnectorID        int32              `json:"connector_id"`
	TriggerRequestedAt time.Time          `json:"trigger_requested_at"`
	Files              []client.FileTaken `json:"files"`
}

func filesAdd(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "add CONNECTOR FILE...", Short: "Upload files to a connector, in place of those of the same names, and sync it",
		Long: `Upload files to a connector, in place of those of the same names, and sync it. A file is named by the last part of its path. Up to 100 files are one request, of which
all are taken or none; more files are several requests, one after the other.

The connector is one of type file with the config {"url": "upload:"}. Folders are not uploaded: name their files.`,
		Example: "  echomind connectors add --name mine --type file --config '{\"url\":\"upload:\"}' --refresh manual\n" +
			"  echomind files add mine notes.md list.csv\n  echomind files add mine docs/*.md --note 'the new handbook'",
		Args: connectorThen("at least one FILE"), ValidArgsFunction: f.completeFiles(cobra.ShellCompDirectiveDefault),
	}
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		all, err := localFiles(args[1:])
		if err != nil {
			return err
		}
		var problem error
		done, err := onServer(f, func(r *remote) (done takenFiles, err error) {
			if done.ConnectorID, err = r.connectorID(c.Context(), args[0]); err != nil {
				return done, err
			}
			for some := range slices.Chunk(all, filesAtOnce) {
				taken, err := r.upload(c.Context(), done.ConnectorID, some, note)
				if err != nil {
					if len(done.Files) > 0 {
						err = fmt.Errorf("%d of %d files are uploaded, the rest is not, from %s on: %w", len(done.Files), len(all), some[0].path, err)
					}
					problem = r.said(err)
					break
				}
				done.TriggerRequestedAt, done.Files = taken.TriggerRequestedAt, append(done.Files, *taken.Files...)
			}
			return done, nil
		})
		if err != nil || len(done.Files) == 0 {
			return errors.Join(err, problem)
		}
		return errors.Join(out.show(c.OutOrStdout(), done, func(w io.Writer) error {
			for _, one := range done.Files {
				if _, err := fmt.Fprintf(w, "%s, %s\n", printable(one.Name), size(uint64(max(one.Bytes, 0)))); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(w, "%s uploaded; connector %d is synced, and `echomind files list %[2]d` tells what has come of them\n", counted(int64(len(done.Files)), "file is", "files are"), done.ConnectorID)
			return err
		}), problem)
	}
	return c
}

// localFile is a file that is to be uploaded.
type localFile struct {
	path, name string
	bytes      int64
}

// localFiles looks at all files before one is sent.
func localFiles(paths []string) (all []localFile, problems error) {
	named := map[string]string{}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			problems = errors.Join(problems, usagef("FILE %v", err))
			continue
		case info.IsDir():
			problems = errors.Join(problems, usagef("FILE %s: is a folder; name its files, such as %s", path, filepath.Join(path, "*")))
			continue
		case !info.Mode().IsRegular():
			problems = errors.Join(problems, usagef("FILE %s: must be a file, and is none that has an end", path))
			continue
		}
		one := localFile{path, filepath.Base(path), info.Size()}
		if strings.ContainsRune(one.name, '\\') { // a server takes what is behind it for the name
			problems = errors.Join(problems, usagef("FILE %s: has a backslash in its name, which no uploaded file has; rename it", path))
			continue
		}
		if other, is := named[one.name]; is {
			problems = errors.Join(problems, usagef("FILE %s: has the name of %s, in whose place it would be; rename one", path, other))
		}
		named[one.name] = path
		all = append(all, one)
	}
	return all, problems
}

// upload sends files as they are read: none of them is in memory as a whole.
func (r *remote) upload(ctx context.Context, id int32, files []localFile, note *auditNote) (taken client.FilesTakenBody, _ error) {
	kind, body, length, err := form(files)
	if err != nil {
		return taken, err
	}
	answer, err := r.api.FilesUploadWithBodyWithResponse(ctx, id, kind, body, note.on, func(_ context.Context, r *http.Request) error {
		r.ContentLength = length
		r.Header.Set("Expect", "100-continue") // a request that is refused for another reason sends no content
		return nil
	})
	if err != nil {
		return taken, connectorError(id, fmt.Sprintf("upload to connector %d", id), err)
	}
	if taken, err = readAs[client.FilesTakenBody](answer.Body); err == nil {
		err = r.is(taken.ConnectorID == id && taken.Files != nil && len(*taken.Files) == len(files))
	}
	return taken, err
}

// form is a body of files, and how long it is.
func form(files []localFile) (kind string, body io.Reader, length int64, _ error) {
	var frame bytes.Buffer
	w := multipart.NewWriter(&frame)
	var parts []io.Reader
	framed := func() {
		length += int64(frame.Len())
		parts = append(parts, bytes.NewReader(bytes.Clone(frame.Bytes())))
		frame.Reset()
	}
	for _, one := range files {
		said := mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": one.name})
		if said == "" {
			return "", nil, 0, usagef("FILE %s: has a name that cannot be sent; rename it", one.path)
		}
		if _, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {said}}); err != nil {
			return "", nil, 0, err
		}
		framed()
		length += one.bytes
		parts = append(parts, &reading{of: one, left: one.bytes})
	}
	if err := w.Close(); err != nil {
		return "", nil, 0, err
	}
	framed()
	return w.FormDataContentType(), io.MultiReader(parts...), length, nil
}

// reading is the content of a file, which is opened when it is its turn. A file whose length has changed ends the request.
type reading struct {
	of   localFile
	left int64
	file *os.File
}

// Read is part of io.Reader.
func (r *reading) Read(into []byte) (n int, err error) {
	if r.file == nil {
		if r.left == 0 {
			return 0, io.EOF
		}
		if r.file, err = os.Open(r.of.path); err != nil {
			return 0, err
		}
	}
	n, err = r.file.Read(into[:min(int64(len(into)), r.left)])
	if r.left -= int64(n); err == nil && r.left > 0 {
		return n, nil
	}
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = fmt.Errorf("%s has become shorter while it was sent; upload it again", r.of.path)
	} else if more, _ := r.file.Read(make([]byte, 1)); more > 0 && (err == nil || errors.Is(err, io.EOF)) {
		err = fmt.Errorf("%s has become longer while it was sent; upload it again", r.of.path)
	}
	if closed := r.file.Close(); err == nil || errors.Is(err, io.EOF) {
		err = closed
	}
	if err == nil {
		err = io.EOF // as it is: who reads looks into no other error for it
	}
	return n, err
}
