// kubelet does what a kubelet does about plugin registrations, on k8s.io/kubelet's own API: it watches a directory, calls
// each socket that comes, and notes each that goes. It dials as kubelet does, by the bare path.
//
//	kubelet -dir DIR [-refuse ERROR]
//
// One line of JSON for each thing that happens: {"event":"registered","socket":..,"type":..,"name":..,"endpoint":..,
// "versions":[..],"node":..}, with "event" one of "ready", "registered", "refused", "failed" and "gone". A line on stdin changes
// what later registrations are answered: "refuse ERROR" or "accept".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// How often the directory is read: kubelet is told by inotify, which is no part of what is tried here.
const period = 20 * time.Millisecond

type event struct {
	Event    string   `json:"event"`
	Socket   string   `json:"socket,omitempty"`
	Type     string   `json:"type,omitempty"`
	Name     string   `json:"name,omitempty"`
	Endpoint string   `json:"endpoint,omitempty"`
	Versions []string `json:"versions,omitempty"`
	Node     string   `json:"node,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func tell(e event) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

type answers struct {
	sync.Mutex
	refuse string
}

func (a *answers) get() string {
	a.Lock()
	defer a.Unlock()
	return a.refuse
}

func (a *answers) set(refuse string) {
	a.Lock()
	defer a.Unlock()
	a.refuse = refuse
}

func main() {
	dir := flag.String("dir", "", "directory of registrations")
	refuse := flag.String("refuse", "", "refuse every plugin with this error")
	flag.Parse()
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
	a := &answers{refuse: *refuse}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			a.set(strings.TrimPrefix(strings.TrimPrefix(lines.Text(), "accept"), "refuse "))
		}
		// Whoever started it is gone.
		os.Exit(0)
	}()
	tell(event{Event: "ready"})
	watch(*dir, a)
}

// watch never ends.
func watch(dir string, a *answers) {
	known := map[string]os.FileInfo{}
	for ; ; time.Sleep(period) {
		found := map[string]bool{}
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			info, err := os.Lstat(path)
			if err != nil || info.Mode()&os.ModeSocket == 0 || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			found[path] = true
			before, there := known[path]
			if there && os.SameFile(before, info) && before.ModTime().Equal(info.ModTime()) {
				continue
			}
			if register(path, a) {
				known[path] = info
			}
		}
		for path := range known {
			if !found[path] {
				delete(known, path)
				tell(event{Event: "gone", Socket: path})
			}
		}
	}
}

func dial(path string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}))
	return grpc.Dial(path, options...) //nolint:staticcheck // As kubelet does: the path becomes the authority.
}

// register goes the whole way, and says whether the plugin has been told the outcome.
func register(path string, a *answers) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	e := event{Socket: path}
	fail := func(err error) bool {
		e.Event, e.Error = "failed", err.Error()
		tell(e)
		return false
	}
	conn, err := dial(path)
	if err != nil {
		return fail(err)
	}
	defer conn.Close()
	client := registerapi.NewRegistrationClient(conn)
	info, err := client.GetInfo(ctx, &registerapi.InfoRequest{})
	if err != nil {
		return fail(err)
	}
	e.Type, e.Name, e.Endpoint, e.Versions = info.Type, info.Name, info.Endpoint, info.SupportedVersions
	status := &registerapi.RegistrationStatus{PluginRegistered: true}
	if refuse := a.get(); refuse != "" {
		status = &registerapi.RegistrationStatus{Error: refuse}
	} else if e.Node, err = node(ctx, info.Endpoint); err != nil {
		status = &registerapi.RegistrationStatus{Error: err.Error()}
	}
	if _, err := client.NotifyRegistrationStatus(ctx, status); err != nil {
		return fail(err)
	}
	e.Event, e.Error = "registered", status.Error
	if !status.PluginRegistered {
		e.Event = "refused"
	}
	tell(e)
	return true
}

// node asks the plugin itself what kubelet wants to know of it.
func node(ctx context.Context, endpoint string) (string, error) {
	conn, err := dial(endpoint, grpc.WithAuthority("localhost"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := csi.NewNodeClient(conn).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return "", err
	}
	return info.NodeId, nil
}
