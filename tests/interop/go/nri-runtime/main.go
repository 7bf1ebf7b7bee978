// nri-runtime is a runtime on the adaptation of containerd/nri, driven by one JSON object a line on standard input.
//
//	nri-runtime -socket nri.sock [-plugins DIR] [-configs DIR] [-validate] [-validator JSON]
//
// Each command is answered by one line with the same "op" and an "error" (empty when it went well). An unsolicited update
// of a plugin is a line of its own, with the op "unsolicited". The end of standard input stops the runtime.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/adaptation/builtin"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator/builtin"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

type command struct {
	Op        string            `json:"op"`
	Pod       json.RawMessage   `json:"pod"`
	Container json.RawMessage   `json:"container"`
	Resources json.RawMessage   `json:"resources"`
	Pods      []json.RawMessage `json:"pods"`
	// Containers is the state that later plugins are synchronized with.
	Containers []json.RawMessage `json:"containers"`
	// Plugins is how many plugins to wait for.
	Plugins int `json:"plugins"`
	// Fill makes this many containers, each with an annotation of Bytes bytes.
	Fill  int `json:"fill"`
	Bytes int `json:"bytes"`
	// Failed are the containers whose unsolicited updates fail.
	Failed []string `json:"failed"`
	// N is how often to measure, Parallel for how many pods at once.
	N        int    `json:"n"`
	Parallel int    `json:"parallel"`
	What     string `json:"what"`
}

type fields map[string]any

type runtime struct {
	nri     *adaptation.Adaptation
	mu      sync.Mutex
	pods    []*api.PodSandbox
	ctrs    []*api.Container
	failed  map[string]bool
	count   atomic.Int64
	owners  atomic.Value
	printed sync.Mutex
}

func (r *runtime) say(more fields) {
	line, err := json.Marshal(more)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"op":"error","error":%q}`, err))
	}
	r.printed.Lock()
	defer r.printed.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func (r *runtime) synchronize(ctx context.Context, callback adaptation.SyncCB) error {
	r.mu.Lock()
	pods, ctrs := r.pods, r.ctrs
	r.mu.Unlock()
	updates, err := callback(ctx, pods, ctrs)
	if err == nil && len(updates) > 0 {
		r.say(fields{"op": "synchronized", "update": messages(updates)})
	}
	return err
}

func (r *runtime) update(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	var failed []*api.ContainerUpdate
	r.mu.Lock()
	for _, update := range updates {
		if r.failed[update.GetContainerId()] {
			failed = append(failed, update)
		}
	}
	r.mu.Unlock()
	r.say(fields{"op": "unsolicited", "update": messages(updates)})
	return failed, nil
}

// The metrics that are looked at: how many plugins there are.
func (r *runtime) UpdatePluginCount(count int)                     { r.count.Store(int64(count)) }
func (*runtime) RecordPluginInvocation(string, string, error)      {}
func (*runtime) RecordPluginLatency(string, string, time.Duration) {}
func (*runtime) RecordPluginAdjustments(string, string, *api.ContainerAdjustment, int, int) {
}

func messages[M proto.Message](list []M) []json.RawMessage {
	texts := []json.RawMessage{}
	for _, message := range list {
		texts = append(texts, message1(message))
	}
	return texts
}

func message1(message proto.Message) json.RawMessage {
	text, err := protojson.Marshal(message)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

func parse[M proto.Message](text json.RawMessage, into M) (M, error) {
	if len(text) == 0 {
		return into, nil
	}
	return into, protojson.Unmarshal(text, into)
}

func (r *runtime) do(c command) (fields, error) {
	ctx := context.Background()
	pod, err := parse(c.Pod, &api.PodSandbox{})
	if err != nil {
		return nil, err
	}
	ctr, err := parse(c.Container, &api.Container{})
	if err != nil {
		return nil, err
	}
	switch c.Op {
	case "snapshot":
		return nil, r.snapshot(c)
	case "wait":
		deadline := time.Now().Add(60 * time.Second)
		for r.count.Load() != int64(c.Plugins) {
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("%d plugins, not %d", r.count.Load(), c.Plugins)
			}
			time.Sleep(time.Millisecond)
		}
		return nil, nil
	case "count":
		return fields{"plugins": r.count.Load()}, nil
	case "fail":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = map[string]bool{}
		for _, id := range c.Failed {
			r.failed[id] = true
		}
		return nil, nil
	case "CreateContainer":
		reply, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
		if err != nil {
			return nil, err
		}
		more := fields{"adjust": message1(reply.GetAdjust()), "update": messages(reply.GetUpdate())}
		if owners, ok := r.owners.Load().(json.RawMessage); ok {
			more["owners"] = owners
		}
		return more, nil
	case "UpdateContainer":
		resources, err := parse(c.Resources, &api.LinuxResources{})
		if err != nil {
			return nil, err
		}
		reply, err := r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{Pod: pod, Container: ctr, LinuxResources: resources})
		if err != nil {
			return nil, err
		}
		return fields{"update": messages(reply.GetUpdate())}, nil
	case "StopContainer":
		reply, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: ctr})
		if err != nil {
			return nil, err
		}
		return fields{"update": messages(reply.GetUpdate())}, nil
	case "bench":
		return r.bench(c, pod, ctr)
	}
	return nil, r.event(ctx, c.Op, pod, ctr)
}

func (r *runtime) event(ctx context.Context, name string, pod *api.PodSandbox, ctr *api.Container) error {
	switch name {
	case "RunPodSandbox":
		return r.nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: pod})
	case "UpdatePodSandbox":
		_, err := r.nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{
			Pod: pod, OverheadLinuxResources: &api.LinuxResources{}, LinuxResources: &api.LinuxResources{},
		})
		return err
	case "PostUpdatePodSandbox":
		return r.nri.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: pod})
	case "StopPodSandbox":
		return r.nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: pod})
	case "RemovePodSandbox":
		return r.nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: pod})
	case "PostCreateContainer":
		return r.nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: pod, Container: ctr})
	case "StartContainer":
		return r.nri.StartContainer(ctx, &api.StartContainerRequest{Pod: pod, Container: ctr})
	case "PostStartContainer":
		return r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: ctr})
	case "PostUpdateContainer":
		return r.nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: pod, Container: ctr})
	case "RemoveContainer":
		return r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: ctr})
	}
	return fmt.Errorf("no operation %q", name)
}

func (r *runtime) snapshot(c command) error {
	var pods []*api.PodSandbox
	for _, text := range c.Pods {
		pod, err := parse(text, &api.PodSandbox{})
		if err != nil {
			return err
		}
		pods = append(pods, pod)
	}
	var ctrs []*api.Container
	for _, text := range c.Containers {
		ctr, err := parse(text, &api.Container{})
		if err != nil {
			return err
		}
		ctrs = append(ctrs, ctr)
	}
	for n := range c.Fill {
		ctrs = append(ctrs, &api.Container{
			Id: fmt.Sprintf("fill%d", n), PodSandboxId: "pod0", Name: fmt.Sprintf("fill%d", n),
			Annotations: map[string]string{"filler": strings.Repeat("x", c.Bytes)},
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods, r.ctrs = pods, ctrs
	return nil
}

// bench measures c.N requests, one after the other or for c.Parallel pods at once. The times are in nanoseconds.
func (r *runtime) bench(c command, pod *api.PodSandbox, ctr *api.Container) (fields, error) {
	ctx := context.Background()
	one := func(pod *api.PodSandbox, ctr *api.Container) error {
		if c.What != "CreateContainer" {
			return r.event(ctx, c.What, pod, ctr)
		}
		// The adaptation changes what it is given, so each request is a message of its own, as in a runtime.
		_, err := r.nri.CreateContainer(ctx, &api.CreateContainerRequest{Pod: pod, Container: ctr})
		return err
	}
	ctrs := make([]*api.Container, c.N)
	for n := range ctrs {
		ctrs[n] = proto.Clone(ctr).(*api.Container)
	}
	if c.Parallel < 2 {
		times := make([]int64, 0, c.N)
		for n := range c.N {
			begin := time.Now()
			if err := one(pod, ctrs[n]); err != nil {
				return nil, err
			}
			times = append(times, time.Since(begin).Nanoseconds())
		}
		return fields{"ns": times}, nil
	}
	var group sync.WaitGroup
	errs := make(chan error, c.Parallel)
	begin := time.Now()
	for worker := range c.Parallel {
		own := proto.Clone(pod).(*api.PodSandbox)
		own.Id = fmt.Sprintf("pod%d", worker)
		group.Add(1)
		go func() {
			defer group.Done()
			for n := worker; n < c.N; n += c.Parallel {
				if err := one(own, ctrs[n]); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(begin)
	close(errs)
	if err, failed := <-errs; failed {
		return nil, err
	}
	return fields{"elapsed": elapsed.Nanoseconds()}, nil
}

func main() {
	socket := flag.String("socket", "", "where plugins connect; none when empty")
	plugins := flag.String("plugins", "", "directory of plugins to start")
	configs := flag.String("configs", "", "directory of their configurations")
	name := flag.String("name", "interop", "what the runtime calls itself")
	version := flag.String("version", "v1.0.0", "and its version")
	validate := flag.Bool("validate", false, "report owners, by a validator within the runtime")
	defaults := flag.String("validator", "", "configuration of the default validator, as JSON")
	request := flag.Duration("request-timeout", adaptation.DefaultPluginRequestTimeout, "of a request to a plugin")
	quiet := flag.Bool("quiet", false, "no log")
	flag.Parse()
	if *quiet {
		logrus.SetOutput(io.Discard)
	}
	adaptation.SetPluginRequestTimeout(*request)

	r := &runtime{}
	options := []adaptation.Option{
		adaptation.WithPluginPath(*plugins), adaptation.WithPluginConfigPath(*configs), adaptation.WithMetrics(r),
	}
	if *socket == "" {
		options = append(options, adaptation.WithDisabledExternalConnections())
	} else {
		options = append(options, adaptation.WithSocketPath(*socket))
	}
	if *defaults != "" {
		config := &validator.DefaultValidatorConfig{}
		if err := json.Unmarshal([]byte(*defaults), config); err != nil {
			fail(err)
		}
		options = append(options, adaptation.WithDefaultValidator(config))
	}
	if *validate {
		options = append(options, adaptation.WithBuiltinPlugins(&builtin.BuiltinPlugin{
			Base: "owners", Index: "99",
			Handlers: builtin.BuiltinHandlers{
				ValidateContainerAdjustment: func(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
					r.owners.Store(message1(req.GetOwners()))
					return nil
				},
			},
		}))
	}
	nri, err := adaptation.New(*name, *version, r.synchronize, r.update, options...)
	if err != nil {
		fail(err)
	}
	r.nri = nri
	if err := nri.Start(); err != nil {
		fail(err)
	}
	r.say(fields{"op": "started", "error": ""})

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c command
		var more fields
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			more, err = r.do(c)
		}
		if more == nil {
			more = fields{}
		}
		more["op"], more["error"] = c.Op, ""
		if err != nil {
			more["error"] = err.Error()
		}
		r.say(more)
	}
	nri.Stop()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "nri-runtime:", err)
	os.Exit(1)
}
