/** What the workers have and TypeScript's library lacks. */

/** Of browsers with modes of access: several readers of one file. */
interface FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode?: "readwrite" | "read-only" | "readwrite-unsafe" }): Promise<FileSystemSyncAccessHandle>;
}

/** The audio thread, of modules/audio/capture-worklet.js. */
declare const sampleRate: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
