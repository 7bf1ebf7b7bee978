// cri-drive makes pods and containers on a container engine, over its CRI socket.
//
//	cri-drive -socket containerd.sock -pause PROGRAM
//
// PROGRAM is a static program; it becomes the only file of an image that is stored in the engine, since there is no
// registry. One JSON object a line on standard input is a command; each is answered by one line with the same "op" and an
// "error" (empty when it went well). Everything uses the host's network. At the end of standard input the pods that are
// left are removed.
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	content "github.com/containerd/containerd/api/services/content/v1"
	images "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The image that the engine's configuration names for sandboxes.
const image = "localhost/pause:test"

const answer = 60 * time.Second

type command struct {
	Op          string            `json:"op"`
	Pod         string            `json:"pod"`
	Container   string            `json:"container"`
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
	Env         map[string]string `json:"env"`
	Args        []string          `json:"args"`
	CPUShares   int64             `json:"cpu_shares"`
}

type fields map[string]any

type driver struct {
	runtime cri.RuntimeServiceClient
	pods    map[string]*cri.PodSandboxConfig
}

func (d *driver) do(c command) (fields, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	switch c.Op {
	case "version":
		reply, err := d.runtime.Version(ctx, &cri.VersionRequest{})
		if err != nil {
			return nil, err
		}
		return fields{"runtime": reply.GetRuntimeName(), "version": reply.GetRuntimeVersion()}, nil
	case "run_pod":
		config := &cri.PodSandboxConfig{
			Metadata:    &cri.PodSandboxMetadata{Name: c.Name, Uid: "uid-" + c.Name, Namespace: "interop", Attempt: 1},
			Annotations: c.Annotations,
			Linux: &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{
					Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD,
				},
			}},
		}
		reply, err := d.runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
		if err != nil {
			return nil, err
		}
		d.pods[reply.GetPodSandboxId()] = config
		return fields{"id": reply.GetPodSandboxId()}, nil
	case "create":
		pod, known := d.pods[c.Pod]
		if !known {
			return nil, fmt.Errorf("no pod %q", c.Pod)
		}
		config := &cri.ContainerConfig{
			Metadata: &cri.ContainerMetadata{Name: c.Name},
			Image:    &cri.ImageSpec{Image: image},
			Command:  append([]string{"/pause"}, c.Args...),
			Linux: &cri.LinuxContainerConfig{
				Resources: &cri.LinuxContainerResources{CpuShares: 512},
				SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: &cri.NamespaceOption{
					Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER,
				}},
			},
		}
		for name, value := range c.Env {
			config.Envs = append(config.Envs, &cri.KeyValue{Key: name, Value: []byte(value)})
		}
		reply, err := d.runtime.CreateContainer(ctx, &cri.CreateContainerRequest{
			PodSandboxId: c.Pod, Config: config, SandboxConfig: pod,
		})
		if err != nil {
			return nil, err
		}
		return fields{"id": reply.GetContainerId()}, nil
	case "start":
		_, err := d.runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.Container})
		return nil, err
	case "update":
		_, err := d.runtime.UpdateContainerResources(ctx, &cri.UpdateContainerResourcesRequest{
			ContainerId: c.Container, Linux: &cri.LinuxContainerResources{CpuShares: c.CPUShares},
		})
		return nil, err
	case "exec":
		reply, err := d.runtime.ExecSync(ctx, &cri.ExecSyncRequest{
			ContainerId: c.Container, Cmd: append([]string{"/pause"}, c.Args...), Timeout: 30,
		})
		if err != nil {
			return nil, err
		}
		return fields{"output": string(reply.GetStdout()), "exit": reply.GetExitCode()}, nil
	case "inspect":
		reply, err := d.runtime.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: c.Container, Verbose: true})
		if err != nil {
			return nil, err
		}
		more := fields{"state": reply.GetStatus().GetState().String(), "annotations": reply.GetStatus().GetAnnotations()}
		if info := reply.GetInfo()["info"]; info != "" {
			more["info"] = json.RawMessage(info)
		}
		return more, nil
	case "stop":
		_, err := d.runtime.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Container, Timeout: 5})
		return nil, err
	case "remove":
		_, err := d.runtime.RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: c.Container})
		return nil, err
	case "stop_pod":
		_, err := d.runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: c.Pod})
		return nil, err
	case "remove_pod":
		_, err := d.runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: c.Pod})
		if err == nil {
			delete(d.pods, c.Pod)
		}
		return nil, err
	}
	return nil, fmt.Errorf("no operation %q", c.Op)
}

// ready waits until the engine answers.
func (d *driver) ready(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), answer)
		_, err := d.runtime.Status(ctx, &cri.StatusRequest{})
		cancel()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// clear removes the pods of this program that are still there.
func (d *driver) clear() error {
	var errs []error
	for pod := range d.pods {
		_, err := d.do(command{Op: "stop_pod", Pod: pod})
		errs = append(errs, err)
		_, err = d.do(command{Op: "remove_pod", Pod: pod})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// store puts an image into the engine whose only file is the program, as /pause.
func store(conn *grpc.ClientConn, program string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answer)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	if err := archive.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := archive.Write(text); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	blobs := content.NewContentClient(conn)
	rootfs, err := blob(ctx, blobs, "application/vnd.oci.image.layer.v1.tar", layer.Bytes(), nil)
	if err != nil {
		return err
	}
	config, err := blobOf(ctx, blobs, "application/vnd.oci.image.config.v1+json", fields{
		"architecture": "amd64", "os": "linux",
		"config":  fields{"Entrypoint": []string{"/pause"}, "Env": []string{"PATH=/"}},
		"rootfs":  fields{"type": "layers", "diff_ids": []string{rootfs.Digest}},
		"history": []any{},
	}, map[string]string{
		// The snapshot of the layer is looked for by this label.
		"containerd.io/gc.ref.snapshot.overlayfs": rootfs.Digest,
	})
	if err != nil {
		return err
	}
	manifest, err := blobOf(ctx, blobs, "application/vnd.oci.image.manifest.v1+json", fields{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []descriptor{rootfs},
	}, map[string]string{
		"containerd.io/gc.ref.content.config": config.Digest, "containerd.io/gc.ref.content.l.0": rootfs.Digest,
	})
	if err != nil {
		return err
	}
	record := &images.Image{
		Name:   image,
		Target: &types.Descriptor{MediaType: manifest.MediaType, Digest: manifest.Digest, Size: manifest.Size},
		Labels: map[string]string{"io.cri-containerd.image": "managed"},
	}
	client := images.NewImagesClient(conn)
	_, err = client.Create(ctx, &images.CreateImageRequest{Image: record})
	if status.Code(err) == codes.AlreadyExists {
		_, err = client.Update(ctx, &images.UpdateImageRequest{Image: record})
	}
	return err
}

func blobOf(ctx context.Context, blobs content.ContentClient, kind string, value any, labels map[string]string) (descriptor, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return blob(ctx, blobs, kind, text, labels)
}

func blob(ctx context.Context, blobs content.ContentClient, kind string, data []byte, labels map[string]string) (descriptor, error) {
	made := descriptor{MediaType: kind, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)), Size: int64(len(data))}
	all := map[string]string{"containerd.io/gc.root": time.Now().UTC().Format(time.RFC3339)}
	for name, value := range labels {
		all[name] = value
	}
	stream, err := blobs.Write(ctx)
	if err != nil {
		return made, err
	}
	const piece = 1 << 20
	for offset := 0; ; offset += piece {
		end := min(offset+piece, len(data))
		request := &content.WriteContentRequest{
			Action: content.WriteAction_WRITE, Ref: made.Digest, Total: made.Size, Expected: made.Digest,
			Offset: int64(offset), Data: data[offset:end],
		}
		if end == len(data) {
			request.Action, request.Labels = content.WriteAction_COMMIT, all
		}
		// What went wrong is told by the answer.
		_ = stream.Send(request)
		if _, err := stream.Recv(); err != nil {
			if status.Code(err) == codes.AlreadyExists {
				return made, nil
			}
			return made, err
		}
		if end == len(data) {
			return made, stream.CloseSend()
		}
	}
}

// known waits until CRI knows the image, which it hears of by an event.
func known(client cri.ImageServiceClient) error {
	deadline := time.Now().Add(answer)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), answer)
		reply, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: image}})
		cancel()
		if err == nil && reply.GetImage() != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("the engine does not list %s", image), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func say(more fields) {
	line, err := json.Marshal(more)
	if err != nil {
		line = []byte(fmt.Sprintf(`{"op":"error","error":%q}`, err))
	}
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func main() {
	socket := flag.String("socket", "", "the engine's socket")
	program := flag.String("pause", "", "the program of the image")
	patience := flag.Duration("patience", 120*time.Second, "how long to wait for the engine")
	flag.Parse()
	conn, err := grpc.NewClient("unix://"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(err)
	}
	d := &driver{runtime: cri.NewRuntimeServiceClient(conn), pods: map[string]*cri.PodSandboxConfig{}}
	if err := d.ready(*patience); err != nil {
		fail(err)
	}
	if err := store(conn, *program); err != nil {
		fail(fmt.Errorf("storing the image: %w", err))
	}
	if err := known(cri.NewImageServiceClient(conn)); err != nil {
		fail(err)
	}
	say(fields{"op": "ready", "error": ""})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		var more fields
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			more, err = d.do(c)
		}
		if more == nil {
			more = fields{}
		}
		more["op"], more["error"] = c.Op, ""
		if err != nil {
			more["error"] = err.Error()
		}
		say(more)
	}
	if err := d.clear(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "cri-drive:", err)
	os.Exit(1)
}
